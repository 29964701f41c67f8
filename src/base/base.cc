#include <cstdio>
#include <cstdlib>

#include "base/check.h"
#include "regroup/result.h"

namespace regroup {

void check_failed(std::string_view file, int line, std::string_view condition) {
  std::fprintf(stderr, "%.*s:%d: this cannot be: %.*s\n", static_cast<int>(file.size()),
               file.data(), line, static_cast<int>(condition.size()), condition.data());
  std::abort();
}

std::string_view to_string(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::InvalidArgument:
      return "invalid argument";
    case ErrorKind::Timeout:
      return "timeout";
    case ErrorKind::Connection:
      return "connection";
    case ErrorKind::Protocol:
      return "protocol";
    case ErrorKind::Refused:
      return "refused";
    case ErrorKind::Unsupported:
      return "unsupported";
    case ErrorKind::Cancelled:
      return "cancelled";
    case ErrorKind::Io:
      return "io";
    case ErrorKind::Closed:
      return "closed";
    case ErrorKind::Corrupt:
      return "corrupt";
    case ErrorKind::NotNeeded:
      return "not needed";
  }
  CHECK(false && "an ErrorKind without a name");
}

}  // namespace regroup
