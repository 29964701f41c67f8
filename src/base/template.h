// Text with names in it that stand for values: worker arguments, prefixes of lines.
#pragma once

#include <map>
#include <string>
#include <string_view>

namespace regroup {

// $name and ${name} become their values, $$ becomes $. A name is ASCII letters, digits and
// underscores, and does not begin with a digit. Everything else stays as it is: unknown names, a
// brace that is never closed, a dollar alone. As Python's string.Template.safe_substitute, which
// users of torchrun know. Values are not looked into.
std::string substitute(std::string_view text, const std::map<std::string, std::string>& values);

}  // namespace regroup
