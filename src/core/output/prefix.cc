#include "core/output/prefix.h"

#include <utility>

#include "base/template.h"

namespace regroup::core::output {

Prefix::Prefix(std::string text, std::map<std::string, std::string> values)
    : text_(std::move(text)), values_(std::move(values)) {
  values_["time"] = "";
  made_ = substitute(text_, values_);
  values_["time"] = "-";
  has_time_ = substitute(text_, values_) != made_;
}

std::string_view Prefix::at(std::string_view time) {
  if (has_time_ && values_["time"] != time) {
    values_["time"] = time;
    made_ = substitute(text_, values_);
  }
  return made_;
}

}  // namespace regroup::core::output
