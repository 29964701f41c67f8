// Server side of TCP: accepts connections. Lives on the loop's thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "io/loop/loop.h"
#include "io/net/connection.h"
#include "regroup/result.h"

namespace regroup::io {

class Listener {
 public:
  using OnConnection = std::function<void(std::shared_ptr<Connection>)>;
  using OnTrouble = std::function<void(const std::string&)>;

  // Binds to every address that `host` stands for and to no other; "::" takes IPv4 too, and falls
  // back to 0.0.0.0 where there is no IPv6. Port 0: any port that is free on all of them.
  static Result<std::unique_ptr<Listener>> open(Loop& loop, const std::string& host,
                                                std::uint16_t port, Duration resolve_limit = 10s);
  virtual ~Listener() = default;

  // `on_trouble` is told why a connection could not be accepted (for example, no file descriptors);
  // the listener pauses for a moment and goes on.
  virtual void start(OnConnection on_connection, OnTrouble on_trouble) = 0;

  virtual std::uint16_t port() const = 0;
  virtual std::vector<std::string> addresses() const = 0;  // "127.0.0.1:29500"
};

}  // namespace regroup::io
