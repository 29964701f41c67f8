// The timeline of a run, one line per event:
//   12.340  n3    swap won: joins the round → round 2: 3 of 2..4 joined
// Switched off it costs nothing: callers ask on() before they make a text.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "base/instant.h"
#include "core/rendezvous/settings.h"
#include "core/rendezvous/state.h"

namespace regroup::sim {

class Trace {
 public:
  using Sink = std::function<void(std::string_view line)>;

  Trace() = default;
  explicit Trace(Sink sink) : sink_(std::move(sink)) {}

  bool on() const { return sink_ != nullptr; }
  void line(Instant at, std::string_view who, std::string_view text) const;

 private:
  Sink sink_;
};

// "n3" for its first process, "n3/2" for the second.
std::string short_name(const core::rendezvous::NodeId& node);

// "1.250 s".
std::string seconds(Duration duration);

// "round 2: 3 of 2..4 joined, 1 waiting"
std::string describe(const core::rendezvous::State& state,
                     const core::rendezvous::Settings& settings);

// What `writer` made of the state: "joins the round, drops n2".
std::string describe_change(const core::rendezvous::State& before,
                            const core::rendezvous::State& after,
                            const core::rendezvous::NodeId& writer);

}  // namespace regroup::sim
