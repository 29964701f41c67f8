// The keys that a request of the store's protocol names.
#pragma once

#include <string_view>
#include <variant>

#include "core/store/messages.h"

namespace regroup::runtime {

// Queues have a space of their own, so requests about them name no key.
template <class OnKey>
void for_each_key(const core::store::Request& request, OnKey on_key) {
  std::visit(
      [&](const auto& one) {
        using One = std::decay_t<decltype(one)>;
        if constexpr (std::is_same_v<One, core::store::QueuePush> ||
                      std::is_same_v<One, core::store::QueuePop> ||
                      std::is_same_v<One, core::store::QueueLen>) {
          return;
        } else if constexpr (requires { one.key; }) {
          on_key(one.key);
        } else if constexpr (requires { one.keys; }) {
          for (const std::string_view key : one.keys) on_key(key);
        } else if constexpr (requires { one.entries; }) {
          for (const core::store::Entry& entry : one.entries) on_key(entry.key);
        }
      },
      request);
}

}  // namespace regroup::runtime
