// Records what a node does in a rendezvous, as torchrun does: the same names, sentences and states
// (docs/events.md). With nobody to tell, nothing is made. Called by any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/rendezvous/executor.h"
#include "core/rendezvous/state.h"
#include "regroup/records.h"
#include "regroup/result.h"

namespace regroup::runtime {

class RendezvousRecords {
 public:
  using Tell = std::function<void(const RendezvousRecord&)>;
  RendezvousRecords(Tell tell, std::string run_id, core::rendezvous::NodeId self);

  // ---- What the handler does ----
  void attempts() const;
  void joined(std::int64_t round, std::int64_t rank, std::int64_t world_size) const;
  void closed() const;
  void beat(const Result<void>& sent) const;
  void could_not_shut_down(const Error& error) const;
  // A call of the handler has failed; `method` is torchrun's name of it.
  void failed(const char* method, const Error& error) const;

  // ---- What it does with the shared state ----
  void change(const core::rendezvous::Transition& transition) const;
  void synced(bool won, const std::vector<core::rendezvous::NodeId>& dead) const;

 private:
  struct What {
    const char* method;
    std::string message;
    RendezvousRecord::NodeState state = RendezvousRecord::NodeState::Running;
    RendezvousRecord::Level level = RendezvousRecord::Level::Debug;
  };
  RendezvousRecord record(const char* of, What what) const;
  std::string node() const { return "The node '" + to_string(self_) + "'"; }
  std::string run() const { return "the rendezvous '" + run_id_ + "'"; }

  const Tell tell_;
  const std::string run_id_;
  const core::rendezvous::NodeId self_;
};

// Before there is a handler: this process hosts the store, or there is none to be had.
void record_hosting(const RendezvousRecords::Tell& tell, const std::string& run_id);
void record_no_backend(const RendezvousRecords::Tell& tell, const std::string& run_id,
                       const Error& error);

}  // namespace regroup::runtime
