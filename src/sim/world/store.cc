#include "sim/world/store.h"

#include <utility>

#include "base/check.h"
#include "sim/world/codec.h"

namespace regroup::sim {

Answer Store::apply(const Request& request, bool ignore_token, std::optional<Change>& change) {
  CHECK(request.ask != Ask::Announce);
  if (request.ask == Ask::Get) return {.value = value_};

  // PyTorch's rule: a missing key equals only the empty value. Otherwise the answer is the value
  // that the caller expected; it is not the one that it wanted to set, so it knows that it lost.
  const bool fits = value_ ? value_->bytes == request.expected : request.expected.empty();
  if (fits || (ignore_token && value_)) {
    auto value = std::make_shared<Value>(Value{.bytes = request.desired, .state = {}});
    if (request.desired != kNoState) value->state = decoded(request.desired);
    change = Change{.before = value_, .after = value};
    value_ = std::move(value);
  }
  return {.value = value_, .won = value_ && value_->bytes == request.desired};
}

}  // namespace regroup::sim
