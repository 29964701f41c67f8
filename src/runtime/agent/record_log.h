// A file that lines of events or metrics are appended to.
//
// Whoever else appends to it (another node's launcher, on a shared file) gets no line of his torn
// and tears none, as long as the file is on a local disk. A pipe that is not read never holds up
// the launcher: lines wait (runtime/limits.h), then they are dropped, and counted.
//
//   auto log = RecordLog::open("/var/log/events.jsonl");
//   if (auto trouble = log->append(line)) warn(*trouble);   // Once.
//   if (auto loss = log->close()) warn(*loss);
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "io/file/pipe.h"
#include "regroup/result.h"

namespace regroup::runtime {

// Of one thread.
class RecordLog {
 public:
  // Made if it is not there. A pipe need not have a reader. Only /dev/stdout, and other names of
  // what the launcher was started with, break when theirs goes.
  static Result<RecordLog> open(const std::string& path);

  // `line` has no end of its own. Says, once, why lines wait or are lost.
  [[nodiscard]] std::optional<std::string> append(std::string_view line);

  // Gives what waits a last chance. Says how many lines were lost, and how much of what a pipe took
  // is lost because nobody reads it.
  [[nodiscard]] std::optional<std::string> close();

  std::uint64_t dropped() const { return dropped_; }

 private:
  RecordLog(std::string path, io::Descriptor fd, io::Descriptor reader)
      : path_(std::move(path)), fd_(std::move(fd)), reader_(std::move(reader)) {}
  // 0: all was written; else the errno that stopped it.
  int flush();

  std::string path_;
  io::Descriptor fd_;
  io::Descriptor reader_;  // Of a pipe: keeps it open while nobody else reads. Never read from.
  std::string waiting_;  // Whole lines, but for the first, of which a part may be written already.
  std::uint64_t dropped_ = 0;
  bool told_ = false;
};

}  // namespace regroup::runtime
