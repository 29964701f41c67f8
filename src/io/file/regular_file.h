// A small file of the user's, read whole.
#pragma once

#include <cstddef>
#include <string>

#include "regroup/result.h"

namespace regroup::io {

struct RegularFile {
  std::string contents;
  unsigned mode = 0;  // Who may do what with it, as stat tells.
};

// At most a byte more than `most`: enough to see that it is too long. Does not wait for whoever
// might write into a pipe. An error is an InvalidArgument that says what is wrong, without the
// name.
Result<RegularFile> read_regular_file(const std::string& path, std::size_t most);

}  // namespace regroup::io
