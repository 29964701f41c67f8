// HOST:PORT as people type it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "regroup/result.h"

namespace regroup::cli {

struct Endpoint {
  std::string host;
  std::uint16_t port = 0;
};

// "node-1:29500", "10.0.0.1:29500", "[::1]:29500".
Result<Endpoint> parse_endpoint(std::string_view text);

}  // namespace regroup::cli
