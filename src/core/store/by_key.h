// A hash map from keys, looked up by views without making strings of them.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>

namespace regroup::core::store {

struct KeyHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view key) const { return std::hash<std::string_view>{}(key); }
};

template <class T>
using ByKey = std::unordered_map<std::string, T, KeyHash, std::equal_to<>>;

}  // namespace regroup::core::store
