// What stands in front of a worker's lines.
#pragma once

#include <map>
#include <string>
#include <string_view>

namespace regroup::core::output {

class Prefix {
 public:
  // `text` as for substitute(); the name `time` stands for the time of the line.
  Prefix(std::string text, std::map<std::string, std::string> values);

  bool has_time() const { return has_time_; }
  // `time` means nothing where has_time() is false. The view holds until the next call.
  std::string_view at(std::string_view time);

 private:
  std::string text_;
  std::map<std::string, std::string> values_;
  bool has_time_ = false;
  std::string made_;
};

}  // namespace regroup::core::output
