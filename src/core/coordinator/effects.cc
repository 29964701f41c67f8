// In a file of its own: where the compiler sees the kind of effect and the vector's growth at once,
// it warns of members that the kind does not have.
#include "core/coordinator/effects.h"

#include <utility>

namespace regroup::core::coordinator {

void add(Effects& effects, Effect effect) { effects.push_back(std::move(effect)); }

}  // namespace regroup::core::coordinator
