#include "runtime/coordinator/coordinator_host.h"

#include <fmt/core.h>

#include <algorithm>
#include <string>
#include <utility>

#include "base/text.h"
#include "core/run/run_rules.h"
#include "io/loop/clock.h"
#include "runtime/common/limits.h"
#include "runtime/coordinator/keys_of.h"
#include "runtime/coordinator/run_table.h"
#include "runtime/coordinator/session_table.h"
#include "wire/rendezvous/rendezvous_keys.h"
#include "wire/session/run_status.h"
#include "wire/session/session.h"

namespace regroup::runtime {

using namespace core::coordinator;
using Stage = Peer::Stage;

constexpr std::string_view kNoName = "none";  // torchrun's --rdzv-id, if none is given.

namespace {

Now read_clocks() { return {io::now(), {io::utc_micros()}}; }

// Every event (bytes of a session, the timer, a swapped state) ends with finish().
class Host final : public CoordinatorHost, private PeerHost {
 public:
  Host(io::Loop& loop, KeyAccess& keys, const SessionLimits& limits,
       std::shared_ptr<const Secret> secret)
      : limits_(limits),
        secret_(std::move(secret)),
        loop_(loop),
        keys_(keys),
        timer_(loop),
        runs_(limits.runs),
        sessions_(*this, limits) {}

  std::unique_ptr<SessionPeer> open(std::shared_ptr<io::Connection> connection,
                                    std::function<void()> drop) override {
    auto peer = sessions_.add(std::move(connection), std::move(drop));
    peer->gate = SessionGate(secret_.get());
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

  CoordinatorCounters counters() const override { return sessions_.counters(); }
  Presence presence() const override { return runs_.presence(); }
  std::vector<core::run::RunStatus> status() const override { return runs_.status(read_clocks()); }

  void clear() override {
    sessions_.clear();
    runs_.clear();
  }

 private:
  void hear(Peer& peer) override {
    auto& input = peer.connection->input();
    sessions_.count_bytes(input.size() - peer.seen);
    if (peer.is_heard()) {
      const Now now = read_clocks();
      if (peer.run != nullptr) peer.run->coordinator.heard_from(peer.id, now);
      take_frames(peer, now);
    } else {
      input.clear();
    }
    peer.seen = input.size();
    finish();
  }

  void forget(Peer& peer) override {
    if (peer.stage == Stage::Gone) return;
    sessions_.remove(peer);
    leave_run(peer);
    finish();
  }

  void take_frames(Peer& peer, Now now) {
    while (peer.is_heard()) {
      auto frame = peer.reader.next(peer.connection->input(), {.sealer = peer.gate.inward()});
      if (std::holds_alternative<wire::NeedMore>(frame)) return;
      if (const auto* wrong = std::get_if<wire::Malformed>(&frame))
        return sessions_.close_for(peer, wrong->reason);
      // A message that only a newer agent knows counts, too.
      if (sessions_.says_too_much(peer, 1, now.instant)) return;
      sessions_.count_message();
      if (auto* whole = std::get_if<wire::WholeFrame<FromAgent>>(&frame))
        take(peer, std::move(whole->message), now);
    }
  }

  void take(Peer& peer, FromAgent message, Now now) {
    if (!passes_gate(peer, message)) return;
    if (const auto* look = std::get_if<Look>(&message)) return report(peer, *look, now);
    if (auto* hello = std::get_if<Hello>(&message)) {
      if (peer.stage == Stage::InARun) return sessions_.close_for(peer, "it said hello twice");
      return welcome(peer, std::move(*hello), now);
    }
    if (peer.stage != Stage::InARun) return sessions_.close_for(peer, "it did not say hello first");
    Run& run = *peer.run;
    run.coordinator.on_message(peer.id, message, now, effects_);
    // Most messages by far are only heartbeats. They move a deadline further away, and waking up
    // early once is cheaper than looking for the next deadline each time.
    carry_out(run, !std::holds_alternative<Ping>(message));
  }

  bool passes_gate(Peer& peer, const FromAgent& message) {
    using What = SessionGate::Verdict::What;
    SessionGate::Verdict verdict = peer.gate.judge(message);
    switch (verdict.what) {
      case What::Pass:
        return true;
      case What::Answer:
        sessions_.send(peer, *verdict.answer);
        peer.gate.answered();
        break;
      case What::Refuse:
        // A node that is in a run is reported lost by that run.
        if (peer.stage == Stage::InARun)
          sessions_.close_for(peer, verdict.why);
        else
          refuse(peer, verdict.why);
        break;
      case What::Close:
        sessions_.close_for(peer, verdict.why);
        break;
    }
    return false;
  }

  void welcome(Peer& peer, Hello hello, Now now) {
    // One that was welcome before, by a coordinator that let it in, runs on.
    if (limits_.names_needed && hello.run_id == kNoName && !hello.again)
      return refuse(peer,
                    "unrelated runs meet at this coordinator, and a run without a name would be "
                    "taken for any other without one. Pass --rdzv-id, the same on every node");
    Run* run = runs_.find(hello.run_id);
    // All nodes have left the run, and none has ended it: the next node begins anew, with its own
    // rules.
    if (run != nullptr && run->sessions == 0 && run->coordinator.is_deserted()) {
      runs_.forget(*run, keys_, now);
      run = nullptr;
    }
    if (run == nullptr) {
      if (std::string why = core::run::why_impossible(hello.rules); !why.empty())
        return refuse(peer, "the run cannot be: " + why);
      auto made = make_run(hello, now);
      if (!made) return refuse(peer, made.error().message);
      run = *made;
    }
    if (run == nullptr) {
      sessions_.complain(fmt::format("refused {}: {} runs are under way, which is the limit",
                                     peer.connection->peer(), limits_.runs));
      return sessions_.refuse(peer, "the coordinator has no room for more runs");
    }
    peer.stage = Stage::InARun;
    peer.run = run;
    ++run->sessions;
    run->coordinator.on_hello(peer.id, std::move(hello), now, effects_);
    carry_out(*run);
  }

  // Refuses it for good.
  void refuse(Peer& peer, const std::string& why) {
    sessions_.complain(fmt::format("refused {}: {}", peer.connection->peer(), why));
    sessions_.refuse(peer, why, true);
  }

  // Null: there is no room for one.
  Result<Run*> make_run(const Hello& hello, Now now) {
    // Nodes without a session cannot say their group.
    const bool has_groups = hello.rules.segment > 0;
    const bool is_closed_to_others = has_groups || secret_ != nullptr;
    ShownState shown(hello.run_id,
                     is_closed_to_others ? ShownState::To::SessionsOnly : ShownState::To::All);
    std::optional<core::rendezvous::State> present;
    // With a secret, only nodes that have it decide; a state from before could be anyone's.
    if (secret_ == nullptr) {
      auto found = shown.find(keys_);
      if (!found) complain_of_state(hello.run_id, found.error());
      if (found) present = std::move(*found);
    } else if (runs_.has_ended(hello.run_id)) {
      present.emplace().closed = true;
    }
    if (has_groups && present && !present->closed &&
        !(present->participants.empty() && present->wait_list.empty()))
      return fail(ErrorKind::InvalidArgument,
                  "nodes without a session are in this run, and they are in no group (--segment)");
    return runs_.make(hello, std::move(shown), std::move(present), keys_, now);
  }

  void complain_of_state(const std::string& run_id, const Error& error) {
    sessions_.complain(fmt::format("what was written as the state of run {} was ignored: {}",
                                   printable(run_id), error.message));
  }

  void report(Peer& peer, const Look& look, Now now) {
    if (peer.stage == Stage::New) peer.stage = Stage::Looking;
    if (sessions_.says_too_much(peer, kLookCosts, now.instant)) return;
    core::run::PortStatus status{.counters = counters(), .runs = {}};
    if (look.run_id.empty())
      status.runs = runs_.status(now);
    else if (const Run* run = runs_.find(look.run_id))
      status.runs.push_back(run->coordinator.status(now));
    std::string json = wire::encode_status(status);
    if (json.size() + wire::kLargestFrame > wire::kLargestReport)
      return sessions_.close_for(peer, "what it asked for is too long for one answer");
    sessions_.send(peer, Report{std::move(json)});
  }

  void carry_out(Run& run, bool deadline_may_be_nearer = true) {
    for (const Effect& effect : effects_) {
      if (const auto* told = std::get_if<Send>(&effect)) {
        if (Peer* peer = sessions_.find(told->to)) sessions_.send(*peer, told->message);
      } else if (const auto* ended = std::get_if<CloseSession>(&effect)) {
        if (Peer* peer = sessions_.find(ended->session)) sessions_.end(*peer);
      } else if (run.shown.has_onlookers()) {
        keys_.set("/" + wire::left_key(run.id, std::get<LeftPhase>(effect).phase), "1");
      }
    }
    effects_.clear();
    if (deadline_may_be_nearer) runs_.reschedule(run);
  }

  void leave_run(Peer& peer) {
    Run* run = std::exchange(peer.run, nullptr);
    if (run == nullptr) return;
    --run->sessions;
    run->coordinator.on_closed(peer.id, read_clocks(), effects_);
    carry_out(*run);
  }

  void finish() {
    while (Peer* peer = sessions_.next_closing()) leave_run(*peer);
    sessions_.finish();
    arm();
  }

  void arm() {
    auto next = runs_.next_due();
    if (const auto at = sessions_.next_deadline(); at && (!next || *at < *next)) next = at;
    // A timer that fires too early is set again then.
    if (!next || (armed_ && *armed_ <= *next)) return;
    armed_ = next;
    timer_.set(*next, [this] { ring(); });
  }

  void ring() {
    armed_.reset();
    loop_.read_what_is_ready();
    const Now now = read_clocks();
    sessions_.expire(now.instant);
    for (Run* run : runs_.due(now.instant)) {
      run->coordinator.on_time(now, effects_);
      carry_out(*run);
    }
    finish();
  }

  const SessionLimits limits_;
  const std::shared_ptr<const Secret> secret_;  // Null: none.
  io::Loop& loop_;
  KeyAccess& keys_;
  io::Timer timer_;
  std::optional<Instant> armed_;
  RunTable runs_;
  SessionTable sessions_;

  // Of the event that is under way.
  Effects effects_;
  std::vector<Run*> looked_at_;
};

}  // namespace

std::unique_ptr<CoordinatorHost> CoordinatorHost::make(io::Loop& loop, KeyAccess& keys,
                                                       const SessionLimits& limits,
                                                       std::shared_ptr<const Secret> secret) {
  return std::make_unique<Host>(loop, keys, limits, std::move(secret));
}

}  // namespace regroup::runtime
