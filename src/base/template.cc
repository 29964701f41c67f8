#include "base/template.h"

namespace regroup {
namespace {

bool begins_name(char c) { return c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool goes_on_in_name(char c) { return begins_name(c) || (c >= '0' && c <= '9'); }

// The name at the front of `text`; empty if there is none.
std::string_view name_at(std::string_view text) {
  if (text.empty() || !begins_name(text[0])) return {};
  std::size_t length = 1;
  while (length < text.size() && goes_on_in_name(text[length])) ++length;
  return text.substr(0, length);
}

}  // namespace

std::string substitute(std::string_view text, const std::map<std::string, std::string>& values) {
  std::string result;
  while (!text.empty()) {
    const std::size_t dollar = text.find('$');
    result += text.substr(0, dollar);
    if (dollar == std::string_view::npos) break;
    text.remove_prefix(dollar);

    std::size_t used = 1;  // A dollar that means nothing.
    std::string_view shown = text.substr(0, used);
    const std::string_view behind = text.substr(1);
    const bool braced = !behind.empty() && behind[0] == '{';
    const std::string_view name = name_at(braced ? behind.substr(1) : behind);
    if (!behind.empty() && behind[0] == '$') {
      used = 2;
    } else if (!name.empty()) {
      const std::size_t length = braced ? name.size() + 3 : name.size() + 1;
      const bool whole = !braced || (length <= text.size() && text[length - 1] == '}');
      const auto value = whole ? values.find(std::string(name)) : values.end();
      if (value != values.end()) {
        used = length;
        shown = value->second;
      }
    }
    result += shown;
    text.remove_prefix(used);
  }
  return result;
}

}  // namespace regroup
