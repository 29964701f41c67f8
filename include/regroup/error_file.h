// The file in which a worker says why it failed: the JSON of PyTorch's `record`, written by
// workers, read by the launcher. Its path is in TORCHELASTIC_ERROR_FILE.
//
//   int main() { return regroup::record(train); }   // Writes the file if train() throws.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "regroup/result.h"

namespace regroup {

struct ErrorFile {
  std::string message = {};     // "ValueError: boom". May be empty if it is no object.
  std::string call_stack = {};  // As Python prints it; empty: none was given.
  std::optional<std::int64_t> timestamp = {};  // Seconds since 1970; empty: none was given.
  std::optional<int> error_code = {};          // Written by a launcher below the worker.
  bool structured = false;                     // `message` was an object, as `record` writes it.
  std::string raw = {};                        // The whole JSON, as it was read.
};

// Corrupt if it is no such file: not JSON, cut, longer than 1 MiB, or without a message.
Result<ErrorFile> parse_error_file(std::string_view json);

// An absent or empty file is no error: nothing was written there. Corrupt is for a message to
// people: for the verdict on the worker the file counts as absent.
Result<std::optional<ErrorFile>> read_error_file(const std::string& path);

// In one step: a reader sees all of it or nothing. Makes the directory if it is missing. A file
// that cannot be replaced (a mount such as /dev/termination-log, a link, a device) is written in
// place.
//
// Always written as `record` does, so `structured` and `raw` mean nothing here. Without a timestamp
// it gets the present time, because PyTorch needs one. A call stack keeps its last 512 KiB, a
// message its first 64 KiB, and bytes that are not UTF-8 become U+FFFD.
Result<void> write_error_file(const std::string& path, const ErrorFile& file);

// A worker's file passed on to the process that has launched the launcher: all of `file.raw` with
// the exit code in it, as PyTorch gives it (-n for signal n). Written like the others.
Result<void> copy_error_file(const std::string& path, const ErrorFile& file, int exit_code);

// Calls `body`; whatever it throws is written to TORCHELASTIC_ERROR_FILE, if that is set, printed
// on standard error, and turned into exit code 1.
//
// What a child process has written there since the call began is kept, because it is nearer to the
// cause: "CUDA error" is not replaced by "my child failed". What was there before is replaced.
int record(const std::function<int()>& body);

}  // namespace regroup
