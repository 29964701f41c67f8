// Decides how long a node with a session may say nothing before it counts as lost, and when to look
// for such nodes next. It holds no nodes: when each one last said something is passed in.
//
// Lives in the coordinator. Nodes without a session are judged by core/rendezvous/liveness.h.
#pragma once

#include <algorithm>
#include <optional>

#include "base/instant.h"

namespace regroup::core::coordinator {

class SilenceWatch {
 public:
  SilenceWatch(Duration heartbeat_limit, Duration reconnect_grace)
      : heartbeat_limit_(heartbeat_limit), reconnect_grace_(reconnect_grace) {}

  // To be called whenever anything happens. Each node says something three times within the limit;
  // if nothing came from any of them for most of it, it was this process that stood still. Nodes
  // whose connections were lost meanwhile then get more time, because they need it to find us
  // again. And if it was time to look for silent nodes meanwhile, none counts as silent until it
  // has had the limit anew: an agent in the same process stood still with us.
  void on_turn(Instant now, bool has_sessions);

  // How long a node whose connection was closed has to come back.
  Duration grace(Instant now) const;
  // The last instant at which a node is not lost yet. `heard`: when it last said something, or its
  // connection was closed.
  Instant limit_of(Instant heard, bool is_connected, Instant now) const {
    if (!is_connected) return heard + grace(now);
    return std::max(heard + heartbeat_limit_, excused_until_);
  }

  // No node can have gone silent before next_look(). If it is empty, there is none to look for.
  void look_by(Instant at);
  void look_at_once() { next_look_ = Instant{}; }
  // True once for each time that has come. The caller then schedules the next look.
  bool take_due(Instant now);
  std::optional<Instant> next_look() const { return next_look_; }

 private:
  const Duration heartbeat_limit_;
  const Duration reconnect_grace_;
  std::optional<Instant> next_look_;
  Instant last_turn_;
  Instant lenient_until_;  // With closed connections,
  Instant excused_until_;  // and with silent ones.
};

}  // namespace regroup::core::coordinator
