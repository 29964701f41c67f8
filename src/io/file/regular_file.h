// A small file of the user's, read whole.
#pragma once

#include <cstddef>
#include <string>

#include "regroup/result.h"

namespace regroup::io {

struct RegularFile {
  std::string contents;
  unsigned mode = 0;  // Its permissions, as stat gives them.
};

// Reads at most one byte more than `most`: enough to see that it is too long. Does not wait for a
// writer if it is a pipe. An error is an InvalidArgument that says what is wrong, without the name.
Result<RegularFile> read_regular_file(const std::string& path, std::size_t most);

}  // namespace regroup::io
