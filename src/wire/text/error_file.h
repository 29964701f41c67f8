// The JSON of an error file, in which a worker says why it failed: the form of PyTorch's `record`.
//
//   {"message": {"message": "ValueError: boom",
//                "extraInfo": {"py_callstack": "Traceback ...", "timestamp": "1794726077"}}}
//
// Other writers make the outer `message` a string, and put the timestamp beside it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "regroup/result.h"

namespace regroup::wire {

// A longer or deeper file is refused as corrupt.
inline constexpr std::size_t kErrorFileBytes = std::size_t{1} << 20;
inline constexpr std::size_t kErrorFileDepth = 32;
// Limits of what we write, as it stands in the file. A longer message keeps its beginning, a longer
// call stack its end, so everything that is written can be read again.
inline constexpr std::size_t kErrorMessageBytes = std::size_t{64} << 10;
inline constexpr std::size_t kCallStackBytes = std::size_t{512} << 10;

// Texts that were read are UTF-8, whatever the file held.
struct ErrorFile {
  std::string message = {};
  std::string call_stack = {};
  std::optional<std::int64_t> timestamp = {};  // Seconds since 1970.
  std::optional<int> error_code = {};
  bool structured = false;  // The outer `message` was an object.
  friend bool operator==(const ErrorFile&, const ErrorFile&) = default;
};

// Corrupt, with a reason that can follow the file's name, if there is no message in it. A timestamp
// or code that makes no sense counts as absent: the message is worth more than they are.
Result<ErrorFile> decode_error_file(std::string_view json);

// Always in the structured form, in ASCII: PyTorch opens it in the encoding of its locale.
std::string encode_error_file(const ErrorFile& file);

// The same JSON with everything else in it, in ASCII. The code becomes part of a `message` that is
// an object, as a launcher adds it for the one above; a string has no place for it.
std::string with_error_code(std::string_view json, int error_code);

}  // namespace regroup::wire
