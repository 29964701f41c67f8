#include "runtime/rounds/run_rounds.h"

#include <system_error>
#include <utility>
#include <variant>

#include "io/loop/clock.h"
#include "runtime/rounds/coordinated_rounds.h"
#include "runtime/rounds/shared_rounds.h"

namespace regroup::runtime {

namespace {

// Most of what the first join waits for checks at least this often whether it was interrupted.
constexpr Duration kHeedsWithin = 500ms;

tl::unexpected<Error> interrupted() {
  return regroup::fail(ErrorKind::Cancelled, "interrupted while waiting for the other nodes");
}

}  // namespace

RunRounds::RunRounds(io::Loop& loop, RendezvousParameters parameters, AgentPart part,
                     RoundEvents events, Meet meet)
    : loop_(loop),
      interrupted_(std::make_shared<std::atomic<bool>>(false)),
      helper_(loop, "rendezvous"),
      parameters_(std::move(parameters)),
      part_(std::move(part)),
      events_(std::move(events)),
      meet_(std::move(meet)),
      abandon_(loop) {
  parameters_.interrupted = interrupted_;
  // These may be called on a helper's thread, which may outlive us.
  if (!parameters_.on_status)
    parameters_.on_status = [post = helper_.poster(), tell = events_.waiting](
                                const std::string& line) { post([tell, line] { tell(line); }); };
  if (!parameters_.on_wait)
    parameters_.on_wait = [post = helper_.poster(), tell = events_.waits](
                              const RendezvousWait& wait) { post([tell, wait] { tell(wait); }); };
  if (!parameters_.on_record && events_.recorded)
    parameters_.on_record = [post = helper_.poster(),
                             tell = events_.recorded](const RendezvousRecord& record) {
      post([tell, record] { tell(record); });
    };
}

RunRounds::~RunRounds() { *interrupted_ = true; }

void RunRounds::join() {
  if (side_) return side_->join();
  began_ = io::now();
  meeting_ = true;
  helper_.run(
      [meet = meet_, parameters = parameters_, part = part_] { return meet(parameters, part); },
      [this](Result<Met> found) { met(std::move(found)); });
}

void RunRounds::met(Result<Met> found) {
  if (!meeting_) return;  // It was abandoned.
  // The interruption may have come too late for meet() to see it, and nothing later checks for it.
  if (found && *interrupted_) found = interrupted();
  if (!found) return fail(JoinFailed::because(found.error()));
  meeting_ = false;
  abandon_.cancel();
  if (auto* contact = std::get_if<CoordinatorContact>(&*found)) {
    CoordinatedRounds::Options options{.parameters = parameters_,
                                       .part = part_,
                                       .settings = contact->settings,
                                       .address = contact->address,
                                       .began = began_};
    side_ = std::make_unique<CoordinatedRounds>(
        loop_, std::move(options), world_of(loop_, std::move(*contact), interrupted_), events_);
  } else {
    try {
      side_ = std::make_unique<SharedRounds>(
          loop_, std::move(std::get<std::unique_ptr<RendezvousHandler>>(*found)), interrupted_,
          SharedRounds::Options{.role = part_.role,
                                .workers = part_.workers,
                                // With fixed ranks there is one round for all starts.
                                .one_round = parameters_.backend == "static"},
          events_);
    } catch (const std::system_error& error) {
      return fail(JoinFailed::because(
          {ErrorKind::Io, std::string("no thread for the rendezvous: ") + error.what() +
                              ". Raise the limit on processes (ulimit -u)."}));
    }
  }
  side_->join();
}

void RunRounds::fail(JoinFailed failed) {
  meeting_ = false;
  abandon_.cancel();
  events_.join_failed(std::move(failed));
}

void RunRounds::give_up_join() {
  *interrupted_ = true;
  if (side_) return side_->give_up_join();
  // meet() may be inside a call to a server that does not answer. That call cannot be ended: it
  // keeps its thread, and its result is dropped.
  abandon_.set(io::now() + kHeedsWithin, [this] {
    if (meeting_) fail(JoinFailed::because(interrupted().value()));
  });
}

void RunRounds::leave(core::agent::Ending ending, bool close) {
  if (side_) return side_->leave(ending, close);
  loop_.post(events_.left);
}

}  // namespace regroup::runtime
