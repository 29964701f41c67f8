// Why a rendezvous state cannot be read.
#pragma once

#include <string_view>

#include "regroup/result.h"

namespace regroup::wire {

// "the rendezvous state is corrupt: ..."
tl::unexpected<Error> corrupt_state(std::string_view what);
tl::unexpected<Error> outdated_state(std::string_view what);

}  // namespace regroup::wire
