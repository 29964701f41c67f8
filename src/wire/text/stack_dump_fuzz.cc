// Any output of a stack dumper, or of a worker, must be harmless to the search for stacks in it.
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "wire/text/stack_dump.h"

using namespace regroup;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto threads = wire::parse_stack_dump(text);
  CHECK(threads.size() <= wire::kThreadsOfDump);
  const auto* main = wire::main_thread(threads);
  const auto at = wire::whereabouts(main, {.system_call = "read", .state = 'S'});
  CHECK(!at.words.empty());
  if (main != nullptr) CHECK(!wire::stack_lines(*main).empty());
  const auto blame = core::hang::blame({{0, at}, {1, {"in barrier", true}}});
  CHECK(blame.rank.value_or(0) == 0);
  const auto ranks = wire::decode_ranks(text);
  CHECK(wire::decode_ranks(wire::encode_ranks(ranks)) == ranks);
  return 0;
}
