#include "runtime/coordinator_host.h"

#include <algorithm>
#include <string>
#include <unordered_map>
#include <utility>

#include "base/text.h"
#include "io/clock.h"
#include "runtime/complaints.h"
#include "runtime/keys_of.h"
#include "runtime/limits.h"
#include "runtime/run_status_json.h"
#include "runtime/run_table.h"
#include "runtime/session_peer.h"
#include "runtime/shown_state.h"
#include "wire/rendezvous_keys.h"
#include "wire/session.h"

namespace regroup::runtime {
namespace {

using namespace core::coordinator;
using Stage = Peer::Stage;

Now read_clocks() { return {io::now(), {io::utc_micros()}}; }

// Every event (bytes of a session, the timer, a swapped state) comes to its end in finish(). Only
// there is anything flushed, closed or armed, so nobody goes away while somebody is dealt with.
class Host final : public CoordinatorHost, private PeerHost {
 public:
  Host(io::Loop& loop, KeyAccess& keys, const SessionLimits& limits)
      : limits_(limits),
        loop_(loop),
        keys_(keys),
        timer_(loop),
        runs_(limits.runs),
        strangers_(limits.hello) {}

  std::unique_ptr<SessionPeer> open(std::shared_ptr<io::Connection> connection,
                                    std::function<void()> drop) override {
    PeerHost& self = *this;
    auto peer = std::make_unique<Peer>(self, SessionId{next_session_++}, std::move(connection),
                                       std::move(drop));
    peers_.emplace(peer->id, peer.get());
    ++counters_.sessions_ever;
    strangers_.add(peer->id, io::now());
    if (peers_.size() > limits_.sessions) {
      complaints_.add("refused " + peer->connection->peer() + ": " +
                      std::to_string(limits_.sessions) + " sessions are open, which is the limit");
      refuse(*peer, "the coordinator has no room for more sessions");
    }
    finish();
    return peer;
  }

  bool before(const core::store::Request& request) override {
    if (runs_.empty()) return false;
    looked_at_.clear();
    for_each_key(request, [this](std::string_view key) {
      if (!key.starts_with(ShownState::kKeyPrefix)) return;
      Run* run = runs_.find(key.substr(ShownState::kKeyPrefix.size()));
      if (run == nullptr || std::count(looked_at_.begin(), looked_at_.end(), run) > 0) return;
      looked_at_.push_back(run);
    });
    if (looked_at_.empty()) return false;
    const Now now = read_clocks();
    for (Run* run : looked_at_) {
      run->shown.show(keys_, run->coordinator.state_for_others(now));
      runs_.reschedule(*run);
    }
    return true;
  }

  void after() override {
    for (Run* run : looked_at_) {
      auto changed = run->shown.take_change(keys_);
      if (!changed) complain_of_state(run->id, changed.error());
      if (!changed || !*changed) continue;
      run->coordinator.on_swapped(std::move(**changed), read_clocks(), effects_);
      carry_out(*run);
    }
    looked_at_.clear();
    finish();
  }

  CoordinatorCounters counters() const override {
    CoordinatorCounters counters = counters_;
    counters.sessions = peers_.size();
    return counters;
  }

  std::vector<RunStatus> status() const override { return runs_.status(read_clocks()); }

  void clear() override {
    for (const auto& [id, peer] : peers_) peer->stage = Stage::Gone;
    peers_.clear();
    strangers_.clear();
    leaving_.clear();
    runs_.clear();
  }

 private:
  void hear(Peer& peer) override {
    auto& input = peer.connection->input();
    counters_.bytes_in += input.size() - peer.seen;
    if (peer.is_heard()) {
      const Now now = read_clocks();
      if (peer.run != nullptr) peer.run->coordinator.heard_from(peer.id, now);
      if (input.size() >= peer.frame_needs) take_frames(peer, now);
    } else {
      input.clear();
    }
    peer.seen = input.size();
    finish();
  }

  void forget(Peer& peer) override {
    if (peer.stage == Stage::Gone) return;
    leave_run(peer);
    peer.stage = Stage::Gone;
    peers_.erase(peer.id);
    finish();
  }

  void take_frames(Peer& peer, Now now) {
    auto& input = peer.connection->input();
    peer.frame_needs = 0;
    while (peer.is_heard()) {
      auto parsed = wire::parse_frame_from_agent(input.view());
      if (const auto* more = std::get_if<wire::NeedMore>(&parsed)) {
        peer.frame_needs = more->at_least;
        return;
      }
      if (const auto* wrong = std::get_if<wire::Malformed>(&parsed))
        return doom(peer, wrong->reason);
      ++counters_.messages_in;
      if (says_too_much(peer, 1, now)) return;
      if (const auto* skipped = std::get_if<wire::SkippedFrame>(&parsed)) {
        input.consume(skipped->size);
      } else {
        auto& whole = std::get<wire::WholeFrame<FromAgent>>(parsed);
        input.consume(whole.size);
        take(peer, std::move(whole.message), now);
      }
    }
  }

  bool says_too_much(Peer& peer, int more, Now now) {
    if (now.instant - peer.second_began >= 1s) {
      peer.second_began = now.instant;
      peer.said_in_second = 0;
    }
    peer.said_in_second += more;
    if (peer.said_in_second <= kMessagesInASecond) return false;
    doom(peer, "it says more in a second than anybody has to");
    return true;
  }

  void take(Peer& peer, FromAgent message, Now now) {
    if (const auto* look = std::get_if<Look>(&message)) return report(peer, *look, now);
    if (auto* hello = std::get_if<Hello>(&message)) {
      if (peer.stage == Stage::InARun) return doom(peer, "it said hello twice");
      return welcome(peer, std::move(*hello), now);
    }
    if (peer.stage != Stage::InARun) return doom(peer, "it did not say hello first");
    Run& run = *peer.run;
    run.coordinator.on_message(peer.id, message, now, effects_);
    // Most messages by far say only that a node lives. That moves a deadline further away, and to
    // wake up early for once is cheaper than to look for the next one each time.
    carry_out(run, !std::holds_alternative<Ping>(message));
  }

  void welcome(Peer& peer, Hello hello, Now now) {
    Run* run = runs_.find(hello.run_id);
    if (run == nullptr) run = make_run(hello, now);
    if (run == nullptr) {
      complaints_.add("refused " + peer.connection->peer() + ": " + std::to_string(limits_.runs) +
                      " runs are under way, which is the limit");
      return refuse(peer, "the coordinator has no room for more runs");
    }
    peer.stage = Stage::InARun;
    peer.run = run;
    ++run->sessions;
    run->coordinator.on_hello(peer.id, std::move(hello), now, effects_);
    carry_out(*run);
  }

  Run* make_run(const Hello& hello, Now now) {
    ShownState shown(hello.run_id);
    auto present = shown.find(keys_);
    if (!present) {
      complain_of_state(hello.run_id, present.error());
      present = std::nullopt;
    }
    return runs_.make(hello, std::move(shown), std::move(*present), keys_, now);
  }

  void complain_of_state(const std::string& run_id, const Error& error) {
    complaints_.add("what somebody wrote as the state of run " + printable(run_id) +
                    " was ignored: " + error.message);
  }

  void report(Peer& peer, const Look& look, Now now) {
    if (peer.stage == Stage::New) peer.stage = Stage::Looking;
    if (says_too_much(peer, kLookCosts, now)) return;
    std::vector<RunStatus> runs;
    if (look.run_id.empty())
      runs = runs_.status(now);
    else if (const Run* run = runs_.find(look.run_id))
      runs.push_back(run->coordinator.status(now));
    std::string json = run_status_json(runs, counters());
    if (json.size() + wire::kLargestFrame > wire::kLargestReport)
      return doom(peer, "all runs together are too long for one answer; ask for one of them");
    send(peer, Report{std::move(json)});
  }

  void carry_out(Run& run, bool deadline_may_be_nearer = true) {
    for (const Effect& effect : effects_) {
      if (const auto* told = std::get_if<Send>(&effect)) {
        if (Peer* peer = find(told->to)) send(*peer, told->message);
      } else if (const auto* ended = std::get_if<CloseSession>(&effect)) {
        if (Peer* peer = find(ended->session)) end(*peer);
      } else if (run.shown.has_onlookers()) {
        keys_.set("/" + wire::left_key(run.id, std::get<LeftPhase>(effect).phase), "1");
      }
    }
    effects_.clear();
    if (deadline_may_be_nearer) runs_.reschedule(run);
  }

  Peer* find(SessionId session) const {
    const auto found = peers_.find(session);
    return found == peers_.end() ? nullptr : found->second;
  }

  void send(Peer& peer, const FromCoordinator& message) {
    if (!peer.is_heard()) return;
    auto& output = peer.connection->output();
    const std::size_t before = output.size();
    // A report may be longer than that: what counts is what was left unread before.
    if (before > kUnreadBySession) return doom(peer, "it does not read what it is told");
    wire::append_frame(output, message);
    ++counters_.messages_out;
    counters_.bytes_out += output.size() - before;
    touch(peer);
  }

  void touch(Peer& peer) {
    if (!std::exchange(peer.touched, true)) touched_.push_back(&peer);
  }

  void refuse(Peer& peer, std::string why) {
    ++counters_.refused;
    send(peer, Refused{.why = std::move(why), .lasting = false});
    end(peer);
  }

  // The run knows of it. The peer has a while to read what it was told, and to close.
  void end(Peer& peer) {
    if (!peer.is_heard()) return;
    peer.stage = Stage::Ending;
    if (Run* run = std::exchange(peer.run, nullptr)) --run->sessions;
    leaving_.add(peer.id, io::now());
    touch(peer);
  }

  void doom(Peer& peer, const std::string& why) {
    ++counters_.refused;
    complaints_.add("closed the session of " + peer.connection->peer() + ": " + why);
    drop_at_the_end(peer);
  }

  void drop_at_the_end(Peer& peer) {
    peer.stage = Stage::Doomed;
    doomed_.push_back(&peer);
  }

  void leave_run(Peer& peer) {
    Run* run = std::exchange(peer.run, nullptr);
    if (run == nullptr) return;
    --run->sessions;
    run->coordinator.on_closed(peer.id, read_clocks(), effects_);
    carry_out(*run);
  }

  void finish() {
    // To tell the others of one that is dropped may find another that does not read.
    for (std::size_t i = 0; i < doomed_.size(); ++i) leave_run(*doomed_[i]);
    for (Peer* peer : touched_) {
      peer->touched = false;
      if (peer->stage == Stage::Doomed) continue;
      peer->connection->flush();
      if (peer->stage == Stage::Ending) peer->connection->end_output();
    }
    touched_.clear();
    for (Peer* peer : doomed_) {
      peer->stage = Stage::Gone;
      peers_.erase(peer->id);
      peer->drop();
    }
    doomed_.clear();
    arm();
  }

  void arm() {
    std::optional<Instant> next = runs_.next_due();
    const auto sooner = [&next](std::optional<Instant> at) {
      if (at && (!next || *at < *next)) next = at;
    };
    sooner(strangers_.next([this](SessionId id) { return is_at(id, Stage::New); }));
    sooner(leaving_.next([this](SessionId id) { return is_at(id, Stage::Ending); }));
    // One that rings too early is set again then.
    if (!next || (armed_ && *armed_ <= *next)) return;
    armed_ = next;
    timer_.set(*next, [this] { ring(); });
  }

  bool is_at(SessionId session, Stage stage) const {
    const Peer* peer = find(session);
    return peer != nullptr && peer->stage == stage;
  }

  void ring() {
    armed_.reset();
    loop_.read_what_is_ready();
    const Now now = read_clocks();
    while (const auto late = strangers_.take_late(now.instant))
      if (is_at(*late, Stage::New)) doom(*find(*late), "it did not say hello");
    while (const auto late = leaving_.take_late(now.instant))
      if (is_at(*late, Stage::Ending)) drop_at_the_end(*find(*late));
    for (Run* run : runs_.due(now.instant)) {
      run->coordinator.on_time(now, effects_);
      carry_out(*run);
    }
    finish();
  }

  const SessionLimits limits_;
  io::Loop& loop_;
  KeyAccess& keys_;
  io::Timer timer_;
  std::optional<Instant> armed_;

  RunTable runs_;
  std::unordered_map<SessionId, Peer*> peers_;
  std::uint64_t next_session_ = 1;
  WaitingLine strangers_;
  WaitingLine leaving_{kSessionGoodbyeLimit};

  // Of the event that is under way.
  Effects effects_;
  std::vector<Peer*> touched_;
  std::vector<Peer*> doomed_;
  std::vector<Run*> looked_at_;

  CoordinatorCounters counters_;
  Complaints complaints_{"coordinator"};
};

}  // namespace

std::unique_ptr<CoordinatorHost> CoordinatorHost::make(io::Loop& loop, KeyAccess& keys,
                                                       const SessionLimits& limits) {
  return std::make_unique<Host>(loop, keys, limits);
}

}  // namespace regroup::runtime
