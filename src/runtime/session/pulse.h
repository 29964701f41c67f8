// When to say that we live, and when a peer that says nothing is lost. Pure: it is told the time.
//
// A silence counts only while somebody listened: whoever comes back late (the machine was
// suspended, a call took long) asks again first, and judges afterwards.
#pragma once

#include <algorithm>

#include "base/instant.h"

namespace regroup::runtime {

class Pulse {
 public:
  enum class Due { Nothing, Ping, Lost };

  // `limit`: of a silence, within reason: it may have come from a peer.
  Pulse(Duration limit, Instant now) : heard_(now), pinged_(now) { set_limit(limit); }

  void set_limit(Duration limit) { limit_ = std::clamp<Duration>(limit, 10ms, 24h); }

  // Anything came.
  void heard(Instant now) { heard_ = now; }

  // When to look.
  Instant next() const { return std::min(pinged_ + interval(), heard_ + limit_); }

  // To be asked when there was nothing (more) to read. After Ping the next is due a third of the
  // limit later.
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
