// Lines about what strangers do to a port. Neither a port scanner nor a lasting problem may fill
// the log: a limited number of lines per time, none twice in a row, and a count of the rest.
#pragma once

#include <string>
#include <utility>

#include "base/instant.h"
#include "io/loop/clock.h"
#include "runtime/common/log.h"

namespace regroup::runtime {

class Complaints {
 public:
  // `whose` is put in front of every line.
  explicit Complaints(std::string whose) : whose_(std::move(whose) + ": ") {}

  void add(const std::string& line) {
    const Instant now = io::now();
    if (now - since_ > 10s) {
      if (suppressed_ > 0) log_warning(whose_ + std::to_string(suppressed_) + " more of the kind");
      since_ = now;
      lines_ = suppressed_ = 0;
      last_.clear();
    }
    if (lines_ == 10 || line == last_) {
      ++suppressed_;
      return;
    }
    ++lines_;
    last_ = line;
    log_warning(whose_ + line);
  }

 private:
  const std::string whose_;
  Instant since_{};
  int lines_ = 0;
  int suppressed_ = 0;
  std::string last_;
};

}  // namespace regroup::runtime
