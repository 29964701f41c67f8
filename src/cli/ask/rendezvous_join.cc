#include "cli/ask/rendezvous_join.h"

#include <fmt/core.h>

#include <future>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "base/text.h"
#include "cli/ask/interruption.h"
#include "cli/flags/cli.h"
#include "cli/flags/report.h"
#include "regroup/store_helpers.h"
#include "runtime/rendezvous/exchange.h"
#include "runtime/rendezvous/rendezvous_view.h"

namespace regroup::cli {
namespace {

using runtime::plain;

// How long all members may take to read what they need from the store of the one that hosts it.
constexpr Duration kBarrierLimit = 30s;
// How long the others may take to leave, once this node has.
constexpr Duration kGoodbyeLimit = 5s;
constexpr Duration kLookAgain = 500ms;
// A user who has asked for the end and sees nothing for longer wants to know why.
constexpr Duration kPatience = 1s;

void say(const std::string& line) { report(kOk, line); }

void print(const RendezvousInfo& info) {
  std::string text = fmt::format(
      "round {}: this node is rank {} of {}\nworkers' store: MASTER_ADDR={} MASTER_PORT={}\n",
      info.round, info.rank, info.world_size, plain(info.bootstrap.address), info.bootstrap.port);
  for (std::size_t rank = 0; rank < info.nodes.size(); ++rank) {
    const bool is_self = static_cast<std::int64_t>(rank) == info.rank;
    text += fmt::format("  rank {}  {}{}", rank, plain(info.nodes[rank]),
                        is_self ? "  (this node)\n" : "\n");
  }
  std::cout << text << std::flush;
}

std::string why_rejoin(const RendezvousStatus& status, const RendezvousInfo& info) {
  const std::string round = fmt::format("round {}: ", info.round);
  if (!status.member)
    return round +
           "this node is no longer a member: it was not heard of, or the store came back empty; "
           "joining again";
  if (!status.whole) return round + "a member is gone; joining the next round";
  return fmt::format("{}{} {} to come in; joining the next round", round,
                     count_of(status.waiting, "node"), status.waiting == 1 ? "wants" : "want");
}

class Visit {
 public:
  Visit(RendezvousParameters parameters, Duration stay)
      : parameters_(std::move(parameters)), stay_(stay) {
    parameters_.on_status = say;
    parameters_.interrupted = interruption_.flag();
  }

  int run() {
    auto made = make_rendezvous(parameters_);
    if (!made) return ended_by(made.error());
    handler_ = std::move(*made);
    const auto info = next_round();
    if (!info) return ended_by(info.error());
    if (stay_ == Duration::zero()) {
      pass_exit_barrier(*info);
      return leave(*info);
    }
    interruption_.expire_after(stay_);
    return remain(*info);
  }

 private:
  Result<RendezvousInfo> next_round() {
    auto info = handler_->next_rendezvous();
    if (info) print(*info);
    return info;
  }

  // Until the time is over, or a signal comes, or the run ends.
  int remain(RendezvousInfo info) {
    bool cut_off = false;
    while (!interruption_.wait_for(kLookAgain)) {
      const auto status = handler_->status();
      if (!status) {
        const bool may_pass = status.error().kind == ErrorKind::Connection ||
                              status.error().kind == ErrorKind::Timeout;
        if (!may_pass) return ended_by(status.error());
        if (!std::exchange(cut_off, true)) say(status.error().message + "; trying on");
        continue;
      }
      if (std::exchange(cut_off, false)) say("the store answers again");
      if (status->closed) {
        say("the run " + printable(parameters_.run_id) + " has been closed");
        return leave(info);
      }
      if (!status->must_rejoin()) continue;
      say(why_rejoin(*status, info));
      auto next = next_round();
      if (!next) return ended_by(next.error());
      info = std::move(*next);
    }
    return leave(info);
  }

  // The node that hosts the store would take it away from nodes that still read.
  void pass_exit_barrier(const RendezvousInfo& info) const {
    if (info.world_size == 1) return;
    // On a thread of its own, because the call cannot be interrupted. If we are, the thread is
    // abandoned.
    std::promise<Result<void>> promise;
    auto passed = promise.get_future();
    std::thread([store = info.store, size = info.world_size,
                 promise = std::move(promise)]() mutable {
      promise.set_value(runtime::exit_barrier(*store, size, kBarrierLimit));
    }).detach();
    while (passed.wait_for(10ms) != std::future_status::ready)
      if (*parameters_.interrupted) return;
    if (const auto result = passed.get(); !result)
      say("note: not all members of the round came to its end: " + result.error().message);
  }

  int leave(const RendezvousInfo& info) {
    if (interruption_.signal_number() != 0) return interrupted();
    if (auto left = handler_->leave(); !left)
      say("note: this node could not take itself off the list: " + left.error().message +
          ". The others will notice its silence.");
    // No node knows which one hosts the store, so all stay until all have left. If the host goes
    // first, the lost connection says that it is over.
    if (info.world_size > 1) [[maybe_unused]]
      const auto all_left =
          barrier(*info.store, "regroup/goodbye", info.world_size, {.limit = kGoodbyeLimit});
    return kOk;
  }

  int interrupted() {
    const std::string cause = interruption_.signal_name();
    const std::string run = "the run " + printable(parameters_.run_id);
    if (handler_ == nullptr) {
      say(cause + ": gave up before joining " + run);
      return interruption_.exit_code();
    }
    std::promise<void> done;
    const std::jthread impatience([&, ended = done.get_future()] {
      if (ended.wait_for(kPatience) == std::future_status::timeout)
        say(fmt::format("{}: leaving {}; once more ends it at once", cause, run));
    });
    const auto left = handler_->leave();
    done.set_value();
    say(left
            ? cause + ": left " + run
            : fmt::format("{}: could not leave {} properly: {}", cause, run, left.error().message));
    return interruption_.exit_code();
  }

  int ended_by(const Error& error) {
    switch (error.kind) {
      case ErrorKind::Cancelled:
        if (interruption_.signal_number() != 0) return interrupted();
        say("the time to stay is over (--stay); left while waiting for the next round");
        return leave_quietly(kOk);
      case ErrorKind::NotNeeded:
        say(error.message);
        return kOk;
      case ErrorKind::InvalidArgument:
        return report(kBadStart, error.message);
      case ErrorKind::Io:
        // Otherwise it is the start that failed: a taken port, for example.
        if (handler_ != nullptr) break;
        return report(kBadStart, error.message);
      case ErrorKind::Connection:  // There is no peer left to say goodbye to.
        return report(kFailed, error.message);
      case ErrorKind::Timeout:
      case ErrorKind::Protocol:
      case ErrorKind::Refused:
      case ErrorKind::Unsupported:
      case ErrorKind::Closed:
      case ErrorKind::Corrupt:
        break;
    }
    say(error.message);
    return leave_quietly(kFailed);
  }

  // After the error that was printed already, it does not matter whether this works, too.
  int leave_quietly(int exit_code) {
    if (handler_ != nullptr) [[maybe_unused]]
      const auto left = handler_->leave();
    return exit_code;
  }

  Interruption interruption_;  // Made before everything that starts threads.
  RendezvousParameters parameters_;
  const Duration stay_;
  std::unique_ptr<RendezvousHandler> handler_;
};

}  // namespace

int join_rendezvous(RendezvousParameters parameters, Duration stay) {
  return Visit(std::move(parameters), stay).run();
}

}  // namespace regroup::cli
