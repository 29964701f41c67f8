#include "wire/rendezvous/claim_text.h"

#include <fmt/core.h>

#include <cstdint>

#include "base/text_parts.h"
#include "wire/bytes/limits.h"

namespace regroup::wire {
namespace {

using core::rendezvous::Claim;
using core::rendezvous::HeldRank;
using core::rendezvous::Seal;

constexpr std::string_view kNone = "-";

std::optional<std::int64_t> parse_number(std::string_view text) {
  if (text.empty() || text.starts_with('-') || (text.size() > 1 && text.starts_with('0')))
    return std::nullopt;
  return to_number<std::int64_t>(text);
}

// Takes the field before the separator off the front of `text`. Empty: there is no separator.
std::optional<std::string_view> take_field(std::string_view& text, char separator) {
  const std::size_t end = text.find(separator);
  if (end == std::string_view::npos) return std::nullopt;
  const std::string_view field = text.substr(0, end);
  text.remove_prefix(end + 1);
  return field;
}

std::optional<std::int64_t> take_number(std::string_view& text, char separator) {
  const auto field = take_field(text, separator);
  return field ? parse_number(*field) : std::nullopt;
}

std::optional<HeldRank> parse_held(std::string_view text) {
  const auto round = take_number(text, '.');
  const auto rank = round ? take_number(text, '.') : std::nullopt;
  const auto world_size = rank ? parse_number(text) : std::nullopt;
  if (!world_size) return std::nullopt;
  return HeldRank{.round = *round, .rank = *rank, .world_size = *world_size};
}

}  // namespace

std::string write_claim(const Claim& claim) {
  const std::string wish = claim.wish ? std::to_string(*claim.wish) : std::string(kNone);
  const std::string held = claim.held ? fmt::format("{}.{}.{}", claim.held->round, claim.held->rank,
                                                    claim.held->world_size)
                                      : std::string(kNone);
  return fmt::format("{}:{}:{}", wish, held, claim.name);
}

std::optional<Claim> parse_claim(std::string_view text) {
  if (text.size() > kClaimBytes) return std::nullopt;
  const auto wish = take_field(text, ':');
  const auto held = wish ? take_field(text, ':') : std::nullopt;
  if (!held) return std::nullopt;
  Claim claim{.name = std::string(text), .wish = std::nullopt, .held = std::nullopt};
  if (*wish != kNone) {
    claim.wish = parse_number(*wish);
    if (!claim.wish) return std::nullopt;
  }
  if (*held != kNone) {
    claim.held = parse_held(*held);
    if (!claim.held) return std::nullopt;
  }
  return claim;
}

std::string write_seal(const Seal& seal) {
  return fmt::format("{}:{}", seal.round, seal.world_size);
}

std::optional<Seal> parse_seal(std::string_view text) {
  const auto round = take_number(text, ':');
  const auto world_size = round ? parse_number(text) : std::nullopt;
  if (!world_size) return std::nullopt;
  return Seal{.round = *round, .world_size = *world_size};
}

}  // namespace regroup::wire
