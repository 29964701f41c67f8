#include "runtime/rendezvous/this_node.h"

#include <fmt/core.h>
#include <unistd.h>

#include <atomic>
#include <random>

#include "base/text.h"
#include "io/net/interfaces.h"
#include "wire/bytes/python_text.h"

namespace regroup::runtime {
namespace {

// Longer than any host name.
constexpr std::size_t kLongestName = 255;

bool fits_the_state(std::string_view name) {
  return name.size() <= kLongestName && wire::is_python_text(name);
}

}  // namespace

core::rendezvous::NodeId make_node_id(const std::string& address) {
  // It counts from a random number: in a container every agent has the same pid, and one that is
  // started again must not be taken for the one before it.
  static std::atomic<std::int64_t> next_local_id{std::random_device{}() >> 1};
  return {.address = address, .pid = ::getpid(), .local_id = next_local_id++};
}

std::string name_of_this_node(const RendezvousParameters& parameters, const std::string& address) {
  if (!parameters.local_addr.empty()) return parameters.local_addr;
  std::string name = io::host_name();
  return fits_the_state(name) ? name : address;
}

Result<void> check_addresses(const RendezvousParameters& parameters, const std::string& address) {
  if (fits_the_state(address) && fits_the_state(parameters.local_addr)) return {};
  return fail(ErrorKind::InvalidArgument,
              fmt::format("this node's address {} cannot be told to the others: it must be UTF-8 "
                          "text of at most {} bytes (--local-addr)",
                          printable(address), kLongestName));
}

}  // namespace regroup::runtime
