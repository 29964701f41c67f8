// The health port: answers HTTP about one agent, from a thread of its own, so that it also answers
// when the agent does not.
//
// Nothing runs until a request comes. A request about the agent's health makes the server ask the
// agent's loop to turn. The answer is sent when it has turned; if it has not within a moment, the
// answer says for how long.
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
    // Gets what a person should know; from the server's thread.
    std::function<void(const std::string&)> warn = {};
  };

  static Result<std::unique_ptr<HealthServer>> start(const HealthOptions& options, io::Loop& agent,
                                                     Source source);
  virtual ~HealthServer() = default;

  // The snapshot that is served if the agent's loop does not turn.
  virtual void publish(HealthSnapshot snapshot) = 0;

  virtual std::uint16_t port() const = 0;
  virtual std::vector<std::string> addresses() const = 0;  // "[::]:8080"
};

}  // namespace regroup::runtime
