#include "runtime/coordinator/shown_state.h"

#include <utility>

#include "wire/bytes/base64.h"
#include "wire/rendezvous/rendezvous_keys.h"
#include "wire/rendezvous/rendezvous_state.h"

namespace regroup::runtime {

using core::rendezvous::State;

ShownState::ShownState(const std::string& run_id, To to)
    : key_("/" + wire::state_key(run_id)), to_(to) {}

Result<std::optional<State>> ShownState::find(KeyAccess& keys) {
  const std::string_view text = keys.get(key_);
  if (text.empty()) return std::nullopt;
  onlookers_ = true;
  if (text == wire::kNoState) return std::nullopt;
  auto state = read(text);
  if (!state) return tl::unexpected(state.error());
  return std::move(*state);
}

void ShownState::show(KeyAccess& keys, const State& state) {
  onlookers_ = true;
  if (to_ == To::All) return put(keys, state);
  State closed;
  closed.closed = true;
  put(keys, closed);
}

// How far the rounds were counted and whether the run was ended, without any names.
void ShownState::leave(KeyAccess& keys, const State& state) {
  if (to_ == To::All) return put(keys, state);
  State left;
  left.round = state.round;
  left.closed = state.closed;
  put(keys, left);
}

void ShownState::put(KeyAccess& keys, const State& state) {
  if (state_ != state) {
    text_ = wire::encode_base64(wire::encode_state(state));
    state_ = state;
  }
  if (keys.get(key_) != text_) keys.set(key_, text_);
}

Result<std::optional<State>> ShownState::take_change(KeyAccess& keys) {
  if (to_ == To::SessionsOnly) return std::nullopt;
  const std::string_view text = keys.get(key_);
  if (text.empty() || text == text_) return std::nullopt;
  auto state = read(text);
  if (!state) return tl::unexpected(state.error());
  return std::move(*state);
}

// The text stays: the node that wrote it holds it as its token, and it is as good as ours.
Result<State> ShownState::read(std::string_view text) {
  auto bytes = wire::decode_base64(text);
  if (!bytes) return tl::unexpected(bytes.error());
  auto state = wire::decode_state(*bytes);
  if (!state) return state;
  text_ = text;
  state_ = *state;
  return state;
}

}  // namespace regroup::runtime
