// The health port: answers HTTP about one agent, from a thread of its own, so that it also answers
// when the agent does not.
//
// Nothing happens while nobody asks: the agent's loop is asked to turn when somebody asks for its
// health, and whoever asks is answered when it has, or after a moment with how long it has not.
//
//   auto server = HealthServer::start(options, loop, [&] { return agent.health(); });
//   ...
//   (*server)->publish(agent.health());   // Something changed.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "io/loop/loop.h"
#include "regroup/agent.h"
#include "runtime/health/health_pages.h"

namespace regroup::runtime {

// Made, used and destroyed on the thread of the agent's loop, which outlives it.
class HealthServer {
 public:
  struct Source {
    std::function<HealthSnapshot()> look;  // On the agent's loop.
    // What a person should know; from the server's thread.
    std::function<void(const std::string&)> warn = {};
  };

  static Result<std::unique_ptr<HealthServer>> start(const HealthOptions& options, io::Loop& agent,
                                                     Source source);
  virtual ~HealthServer() = default;

  // What is told if the agent's loop does not turn.
  virtual void publish(HealthSnapshot snapshot) = 0;

  virtual std::uint16_t port() const = 0;
  virtual std::vector<std::string> addresses() const = 0;  // "[::]:8080"
};

}  // namespace regroup::runtime
