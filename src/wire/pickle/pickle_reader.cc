#include "wire/pickle/pickle_reader.h"

#include <fmt/core.h>

#include <string>

#include "wire/bytes/limits.h"
#include "wire/pickle/pickle_errors.h"
#include "wire/pickle/pickle_machine.h"

namespace regroup::wire {

Result<PickleGraph> read_pickle(std::string_view bytes) {
  if (bytes.size() > kStateBytes)
    return corrupt_state(
        fmt::format("it has {} bytes; the limit is {}", bytes.size(), kStateBytes));
  return PickleReader(bytes).run();
}

}  // namespace regroup::wire
