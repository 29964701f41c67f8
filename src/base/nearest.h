// «Did you mean»: the known word that is nearest to what was typed.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace regroup {

// Empty if none is near enough to be what was meant.
std::optional<std::string> nearest(std::string_view typed, const std::vector<std::string>& known);

}  // namespace regroup
