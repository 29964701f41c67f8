// Colours, used sparingly: the cause stands out, hints are dimmed, everything else is plain.
#pragma once

#include <string>

namespace regroup::cli {

struct Paint {
  bool on = false;

  std::string cause(const std::string& text) const { return dyed("\x1b[31m", text); }
  std::string hint(const std::string& text) const { return dyed("\x1b[2m", text); }

 private:
  std::string dyed(const char* how, const std::string& text) const {
    return on ? how + text + "\x1b[0m" : text;
  }
};

}  // namespace regroup::cli
