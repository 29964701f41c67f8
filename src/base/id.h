// Ids are their own types: a client is never passed where a worker is meant.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>

namespace regroup {

template <class Tag>
struct Id {
  std::uint64_t value = 0;
  friend constexpr auto operator<=>(Id, Id) = default;
};

}  // namespace regroup

template <class Tag>
struct std::hash<regroup::Id<Tag>> {
  std::size_t operator()(regroup::Id<Tag> id) const noexcept {
    return std::hash<std::uint64_t>{}(id.value);
  }
};
