// Hosts the coordinators of all runs that meet at one port (core/coordinator), on the loop of the
// store host whose connections become their sessions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/coordinator/coordinator.h"
#include "io/loop.h"
#include "runtime/session_service.h"

namespace regroup::runtime {

struct CoordinatorCounters {
  std::uint64_t sessions = 0;  // Now.
  std::uint64_t sessions_ever = 0;
  std::uint64_t messages_in = 0;
  std::uint64_t messages_out = 0;
  std::uint64_t bytes_in = 0;
  std::uint64_t bytes_out = 0;
  std::uint64_t refused = 0;  // Sessions closed for what they said, or before they said anything.
};

class CoordinatorHost : public SessionService {
 public:
  // `store`: to set keys for those who have no session; it runs on the same loop.
  using SetKey = std::function<void(const std::string& key, const std::string& value)>;
  static std::unique_ptr<CoordinatorHost> make(io::Loop& loop, SetKey set_key);

  virtual CoordinatorCounters counters() const = 0;
  virtual std::vector<core::coordinator::RunStatus> status() const = 0;
};

}  // namespace regroup::runtime
