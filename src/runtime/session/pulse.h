// When to send a sign of life, and when a silent peer is lost. Pure: it is told the time.
//
// Silence counts only while we listened. If we look late, because the machine was suspended or a
// call took long, we ping first, and judge at the next look.
#pragma once

#include <algorithm>

#include "base/instant.h"

namespace regroup::runtime {

class Pulse {
 public:
  enum class Due { Nothing, Ping, Lost };

  // `limit`: how long a silence may last. It may come from a peer, so it is kept within bounds.
  Pulse(Duration limit, Instant now) : heard_(now), pinged_(now) { set_limit(limit); }

  void set_limit(Duration limit) { limit_ = std::clamp<Duration>(limit, 10ms, 24h); }

  // Something came from the peer.
  void heard(Instant now) { heard_ = now; }

  // When to call look().
  Instant next() const { return std::min(pinged_ + interval(), heard_ + limit_); }

  // To be called when everything that has come was read. After Ping the next one is due a third of
  // the limit later.
  Due look(Instant now) {
    if (now < next()) return Due::Nothing;
    if (now - next() > interval())
      heard_ = now;
    else if (now >= heard_ + limit_)
      return Due::Lost;
    pinged_ = now;
    return Due::Ping;
  }

 private:
  Duration interval() const { return limit_ / 3; }

  Duration limit_{};
  Instant heard_;
  Instant pinged_;
};

}  // namespace regroup::runtime
