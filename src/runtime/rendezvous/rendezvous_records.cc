#include "runtime/rendezvous/rendezvous_records.h"

#include <fmt/core.h>
#include <unistd.h>

#include <string_view>
#include <utility>

#include "io/net/interfaces.h"

namespace regroup::runtime {

using core::rendezvous::Action;
using core::rendezvous::NodeId;
using core::rendezvous::Transition;

namespace {

using RecordState = RendezvousRecord::NodeState;
using Level = RendezvousRecord::Level;

constexpr const char* kHandler = "dynamic_rendezvous.py:DynamicRendezvousHandler.";
constexpr const char* kExecutor = "dynamic_rendezvous.py:_DistributedRendezvousOpExecutor.";
constexpr const char* kHolder = "dynamic_rendezvous.py:_BackendRendezvousStateHolder.";
constexpr const char* kBackend = "c10d_rendezvous_backend.py:";

// The name of torchrun's exception.
std::string_view type_of(const Error& error) {
  switch (error.kind) {
    case ErrorKind::Closed:
      return "RendezvousClosedError";
    case ErrorKind::Timeout:
      return "RendezvousTimeoutError";
    case ErrorKind::Connection:
      return "RendezvousConnectionError";
    case ErrorKind::Corrupt:
      return "RendezvousStateError";
    case ErrorKind::NotNeeded:
      return "RendezvousGracefulExitError";
    case ErrorKind::Cancelled:
      return "SignalException";
    case ErrorKind::InvalidArgument:
    case ErrorKind::Protocol:
    case ErrorKind::Refused:
    case ErrorKind::Unsupported:
    case ErrorKind::Io:
      break;
  }
  return "RendezvousError";
}

std::string typed(const Error& error) {
  return fmt::format("{}: {}", type_of(error), error.message);
}

// Of what comes before a node has an id.
RendezvousRecord of_process(const std::string& run_id) {
  return {.name = {}, .run_id = run_id, .message = {}, .host = io::host_name(), .pid = ::getpid()};
}

}  // namespace

RendezvousRecords::RendezvousRecords(Tell tell, std::string run_id, NodeId self)
    : tell_(std::move(tell)), run_id_(std::move(run_id)), self_(std::move(self)) {}

RendezvousRecord RendezvousRecords::record(const char* of, What what) const {
  return {.name = std::string(of) + what.method,
          .run_id = run_id_,
          .message = std::move(what.message),
          .host = self_.address,
          .pid = self_.pid,
          .state = what.state,
          .level = what.level,
          .local_id = self_.local_id};
}

void RendezvousRecords::attempts() const {
  if (!tell_) return;
  tell_(record(kHandler, {.method = "next_rendezvous",
                          .message = node() + " attempts to join the next round of " + run() + ".",
                          .level = Level::Info}));
}

void RendezvousRecords::joined(std::int64_t round, std::int64_t rank,
                               std::int64_t world_size) const {
  if (!tell_) return;
  RendezvousRecord joined = record(
      kHandler,
      {.method = "next_rendezvous",
       .message = fmt::format("{} has joined round {} of {} as rank {} in a world of size {}.",
                              node(), round, run(), rank, world_size),
       .level = Level::Info});
  joined.rank = rank;
  tell_(joined);
}

void RendezvousRecords::closed() const {
  if (!tell_) return;
  tell_(record(kHandler, {.method = "_close",
                          .message = node() + " has closed " + run() + ".",
                          .state = RecordState::Succeeded,
                          .level = Level::Info}));
}

void RendezvousRecords::beat(const Result<void>& sent) const {
  if (!tell_ || (!sent && sent.error().kind == ErrorKind::Cancelled)) return;
  if (sent)
    return tell_(record(
        kHandler, {.method = "_keep_alive",
                   .message = node() + " has sent a keep-alive heartbeat to " + run() + "."}));
  RendezvousRecord failed = record(
      kHandler, {.method = "_keep_alive",
                 .message = fmt::format("{} has failed to send a keep-alive heartbeat to {} due to "
                                        "an error of type {}.",
                                        node(), run(), type_of(sent.error())),
                 .state = RecordState::Failed,
                 .level = Level::Warning});
  failed.error = typed(sent.error());
  tell_(failed);
}

void RendezvousRecords::could_not_shut_down(const Error& error) const {
  if (!tell_) return;
  RendezvousRecord failed = record(
      kHandler, {.method = "shutdown",
                 .message = fmt::format("{} has failed to shutdown {} due to an error of type {}.",
                                        node(), run(), type_of(error)),
                 .state = RecordState::Failed,
                 .level = Level::Warning});
  failed.error = typed(error);
  tell_(failed);
}

void RendezvousRecords::failed(const char* method, const Error& error) const {
  if (!tell_) return;
  RendezvousRecord failed =
      record(kHandler, {.method = method, .message = typed(error), .state = RecordState::Failed});
  failed.error = failed.message;
  tell_(failed);
}

void RendezvousRecords::change(const Transition& transition) const {
  if (!tell_) return;
  const std::int64_t round = transition.round;
  const auto tell = [&](const char* method, const std::string& did,
                        RecordState state = RecordState::Running) {
    tell_(record(kExecutor, {.method = method,
                             .message = fmt::format("{} {}. Pending sync.", node(), did),
                             .state = state}));
  };
  const auto list = [&](const char* verb, const char* name, std::int64_t of) {
    return fmt::format("{} the {} of round {} of {}", verb, name, of, run());
  };
  switch (transition.action) {
    case Action::KeepAlive:
      return tell("_keep_alive", "updated its keep-alive heartbeat time for " + run());
    case Action::AddToParticipants:
      return tell("_add_to_participants", list("added itself to", "participants", round));
    case Action::AddToWaitList:
      return tell("_add_to_wait_list", list("added itself to", "wait list", round + 1));
    case Action::AddToRedundancyList:
      return tell("_add_to_redundancy_list", list("added itself to", "redundancy list", round + 1));
    case Action::RemoveFromParticipants:
      return tell("_remove_from_participants", list("removed itself from", "participants", round));
    case Action::RemoveFromWaitList:
      return tell("_remove_from_wait_list", list("removed itself from", "wait list", round + 1));
    case Action::RemoveFromRedundancyList:
      return tell("_remove_from_redundancy_list",
                  list("removed itself from", "redundant list", round + 1));
    case Action::MarkComplete:
      return tell("_mark_rendezvous_complete",
                  fmt::format("marked round {} of {} as complete", round, run()),
                  RecordState::Succeeded);
    case Action::MarkClosed:
      return tell("_mark_rendezvous_closed", "marked " + run() + " as closed",
                  RecordState::Succeeded);
    case Action::Sync:
    case Action::Finish:
    case Action::ErrorClosed:
    case Action::ErrorTimeout:
    case Action::GracefulExit:
      return;  // They change nothing.
  }
}

void RendezvousRecords::synced(bool won, const std::vector<NodeId>& dead) const {
  if (!tell_) return;
  if (won && !dead.empty()) {
    std::string names;
    for (const NodeId& one : dead)
      names += fmt::format("{}'{}'", names.empty() ? "" : ", ", to_string(one));
    RendezvousRecord dropped = of_process(run_id_);
    dropped.name = std::string(kHolder) + "sync";
    dropped.message = fmt::format(
        "As part of the sync operation the node(s) {} have been removed from {} since they had no "
        "heartbeat.",
        names, run());
    tell_(dropped);
  }
  const std::string what =
      won ? " has successfully synced its local changes with other nodes in "
          : " has a stale state and failed to sync its local changes with other nodes in ";
  tell_(record(kExecutor, {.method = "run", .message = node() + what + run() + "."}));
}

void record_hosting(const RendezvousRecords::Tell& tell, const std::string& run_id) {
  if (!tell) return;
  RendezvousRecord hosting = of_process(run_id);
  hosting.name = std::string(kBackend) + "_create_tcp_store";
  hosting.message =
      fmt::format("Process {} hosts the TCP store for the C10d rendezvous backend.", hosting.pid);
  hosting.state = RecordState::Init;
  hosting.level = Level::Info;
  tell(hosting);
}

void record_no_backend(const RendezvousRecords::Tell& tell, const std::string& run_id,
                       const Error& error) {
  if (!tell) return;
  RendezvousRecord failed = of_process(run_id);
  failed.name = std::string(kBackend) + "create_backend";
  failed.message = failed.error = typed(error);
  failed.state = RecordState::Failed;
  tell(failed);
}

}  // namespace regroup::runtime
