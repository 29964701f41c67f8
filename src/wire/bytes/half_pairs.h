// JSON that Python writes and others refuse to read.
#pragma once

#include <string>
#include <string_view>

namespace regroup::wire {

// Python writes text with stray bytes in it (a file name, say) as \udc80 to \udcff, half of a pair
// that Boost refuses. The rest of such a message is worth reading.
std::string without_half_pairs(std::string_view text);

}  // namespace regroup::wire
