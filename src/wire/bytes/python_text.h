// Whether bytes are text that Python would read from a pickle: UTF-8, with lone surrogates, which
// Python's own texts may hold (a host name with stray bytes has them) and its pickles carry.
#pragma once

#include <string_view>

namespace regroup::wire {

bool is_python_text(std::string_view bytes);

}  // namespace regroup::wire
