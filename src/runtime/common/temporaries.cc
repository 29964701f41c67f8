#include "runtime/common/temporaries.h"

#include <stdlib.h>
#include <unistd.h>

#include <system_error>

namespace regroup::runtime {

namespace fs = std::filesystem;

fs::path directory_for_temporaries() {
  std::error_code error;
  for (const char* name : {"TMPDIR", "TEMP", "TMP"}) {
    const char* value = ::getenv(name);
    if (value != nullptr && *value != '\0' && ::access(value, W_OK | X_OK) == 0)
      return fs::absolute(value, error);
  }
  for (const char* path : {"/tmp", "/var/tmp", "/usr/tmp"})
    if (::access(path, W_OK | X_OK) == 0) return path;
  return fs::current_path(error);
}

}  // namespace regroup::runtime
