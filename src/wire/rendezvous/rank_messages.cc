#include "wire/rendezvous/rank_messages.h"

#include <fmt/core.h>

#include <boost/json.hpp>

#include "base/text.h"

namespace regroup::wire {
namespace {

using core::rendezvous::AssignedRanks;
using core::rendezvous::RoleInfo;
namespace json = boost::json;

auto malformed(std::string_view what, std::string_view text) {
  return fail(ErrorKind::Protocol,
              fmt::format("a node left {} in the store, which is no {}", printable(text), what));
}

json::value parse(std::string_view text) {
  json::error_code error;
  json::value value = json::parse(json::string_view(text.data(), text.size()), error);
  return error ? json::value(nullptr) : value;
}

bool is_count(const json::value& value) { return value.is_int64() && value.get_int64() >= 0; }

}  // namespace

std::string encode_role_info(const RoleInfo& info) {
  return json::serialize(json::object{
      {"role", info.role}, {"rank", info.rank}, {"local_world_size", info.local_world_size}});
}

Result<RoleInfo> decode_role_info(std::string_view text) {
  const json::value value = parse(text);
  const json::object* object = value.if_object();
  const auto field = [&](const char* name) -> const json::value& {
    static const json::value none;
    const json::value* found = object != nullptr ? object->if_contains(name) : nullptr;
    return found != nullptr ? *found : none;
  };
  const json::value& role = field("role");
  const json::value& rank = field("rank");
  const json::value& size = field("local_world_size");
  if (!role.is_string() || !is_count(rank) || !is_count(size))
    return malformed("description of its role", text);
  return RoleInfo{.role = std::string(role.get_string().begin(), role.get_string().end()),
                  .rank = rank.get_int64(),
                  .local_world_size = size.get_int64()};
}

std::string encode_assigned_ranks(const AssignedRanks& assigned) {
  return json::serialize(json::array{assigned.base_global_rank, assigned.global_world_size,
                                     assigned.base_role_rank, assigned.role_world_size});
}

Result<AssignedRanks> decode_assigned_ranks(std::string_view text) {
  const json::value value = parse(text);
  const json::array* array = value.if_array();
  if (array == nullptr || array->size() != 4) return malformed("assignment of ranks", text);
  for (const json::value& number : *array)
    if (!is_count(number)) return malformed("assignment of ranks", text);
  return AssignedRanks{.base_global_rank = (*array)[0].get_int64(),
                       .global_world_size = (*array)[1].get_int64(),
                       .base_role_rank = (*array)[2].get_int64(),
                       .role_world_size = (*array)[3].get_int64()};
}

}  // namespace regroup::wire
