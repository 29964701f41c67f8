// Frames to test with: one of every message, with all fields set and with none, and frames that no
// peer of ours would write.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/byte_buffer.h"
#include "core/coordinator/messages.h"
#include "wire/session/session.h"

namespace regroup::wire::session_testing {

namespace coordinator = core::coordinator;
using coordinator::FromAgent;
using coordinator::FromCoordinator;

inline constexpr std::size_t kHead = 5;  // Length and kind.

template <class Message>
std::string frame(const Message& message) {
  ByteBuffer out;
  append_frame(out, message);
  return std::string(out.view());
}
inline std::string from_agent(FromAgent message) { return frame(message); }
inline std::string from_coordinator(FromCoordinator message) { return frame(message); }

template <class T>
std::string raw(T value) {
  std::string bytes(sizeof value, '\0');
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}

// A frame of our own making: the length is right, the rest is up to the test.
inline std::string hand_made(std::uint8_t kind, std::string_view fields) {
  return raw(static_cast<std::uint32_t>(1 + fields.size())) + raw(kind) + std::string(fields);
}
// The front of a frame that is announced to have `size` bytes in all.
inline std::string head(std::size_t size, std::uint8_t kind) {
  return raw(static_cast<std::uint32_t>(size - 4)) + raw(kind);
}

// A frame with `more` behind its last field.
inline std::string extended(std::string bytes, std::string_view more) {
  bytes += more;
  const std::string length = raw(static_cast<std::uint32_t>(bytes.size() - 4));
  return bytes.replace(0, length.size(), length);
}

inline auto parse(const FromAgent& /*of*/, std::string_view bytes) {
  return parse_frame_from_agent(bytes);
}
inline auto parse(const FromCoordinator& /*of*/, std::string_view bytes) {
  return parse_frame_from_coordinator(bytes);
}

inline std::string why_not_from_agent(std::string_view bytes) {
  const auto parsed = parse_frame_from_agent(bytes);
  const auto* wrong = std::get_if<Malformed>(&parsed);
  return wrong != nullptr ? wrong->reason : "(not malformed)";
}
inline std::string why_not_from_coordinator(std::string_view bytes) {
  const auto parsed = parse_frame_from_coordinator(bytes);
  const auto* wrong = std::get_if<Malformed>(&parsed);
  return wrong != nullptr ? wrong->reason : "(not malformed)";
}

inline constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();

inline coordinator::Hello full_hello() {
  return {.run_id = "job-7",
          .node = {.address = "10.0.0.3", .pid = 4711, .local_id = 2},
          .claim = {.name = "gpu-03",
                    .wish = 3,
                    .held = core::rendezvous::HeldRank{.round = 7, .rank = 1, .world_size = 4},
                    .group = "rack-13"},
          .role = "trainer",
          .workers = 8,
          .rules = {.min_nodes = 2,
                    .max_nodes = 16,
                    .last_call = 31s,
                    .max_restarts = 5,
                    .restart_window = 61min,
                    .per_node = true,
                    .crash_loop = 9,
                    .crash_loop_time = 32s,
                    .no_restart_codes = {2, -9},
                    .node_strikes = 11,
                    .max_membership_changes = 12,
                    .segment = 14,
                    .heartbeat_limit = 6s,
                    .reconnect_grace = 250ms},
          .running = coordinator::Running{.place = {.round = 8, .rank = 2, .world_size = 5},
                                          .restart_count = 3,
                                          .done = true},
          .restarts = 4,
          .again = true};
}

inline const coordinator::Failure kFailure{
    .rank = 17, .node = "gpu-02", .exit_code = -9, .text = "rank 17 on gpu-02: SIGKILL (größe)"};

// 32 bytes, all different; beyond 255 they begin at 0.
inline coordinator::Bytes32 counted_from(std::uint8_t first) {
  coordinator::Bytes32 bytes;
  for (std::uint8_t& byte : bytes) byte = first++;
  return bytes;
}

// Everything set, and to values that no other field has.
inline std::vector<FromAgent> full_from_agent() {
  return {
      full_hello(),
      coordinator::Join{.number = 7, .bootstrap = {.address = "fe80::1%eth0", .port = 65535}},
      coordinator::Failed{.round = 9, .failure = kFailure},
      coordinator::Done{.round = 10},
      coordinator::Leave{.why = "preempted", .close = true},
      coordinator::Ping{.number = std::numeric_limits<std::uint64_t>::max()},
      coordinator::Look{.run_id = "job-8"},
      coordinator::Warn{.signal = 10},
      coordinator::Prove{counted_from(100)},
      coordinator::AgentProof{counted_from(140)},
      coordinator::Stalled{.round = 24, .votes = core::hang::Votes{.suspects = 2, .spinning = 6}},
      coordinator::Where{.round = 25,
                         .ranks = {{.rank = 3, .at = {"in read() under DataLoader", false}},
                                   {.rank = 4, .at = {"in all_reduce", true}}}}};
}
inline std::vector<FromCoordinator> full_from_coordinator() {
  return {coordinator::Welcome{.member = true, .rules = {.segment = 15, .heartbeat_limit = 7s}},
          coordinator::Progress{.text = "round 3: 5 of 6..8 nodes joined; missing: n7",
                                .brief = "waiting for nodes: 5 of 6..8 here",
                                .last_call = 12s,
                                .spare = true},
          coordinator::Sealed{.round = 11,
                              .rank = 12,
                              .world_size = 13,
                              .restart_count = 14,
                              .by_session = false,
                              .ranks = {.base_global_rank = 15,
                                        .global_world_size = 16,
                                        .base_role_rank = 17,
                                        .role_world_size = 18},
                              .bootstrap = {.address = "10.0.0.9", .port = 29500}},
          coordinator::Stop{.round = 19,
                            .why = coordinator::Stop::Why::RunFailed,
                            .text = "rank 17 on gpu-02 failed",
                            .note = "exit code 2",
                            .verdict = kFailure,
                            .culprit = {.address = "10.0.0.2", .pid = 20, .local_id = 21},
                            .restart_count = 22},
          coordinator::Over{},
          coordinator::Refused{.why = "this run has other rules", .lasting = false},
          coordinator::Pong{.number = 23},
          coordinator::Report{.json = R"({"runs": []})"},
          coordinator::Warned{.signal = 12, .node = "gpu-03"},
          coordinator::Challenge{counted_from(180)},
          coordinator::CoordinatorProof{counted_from(220)},
          coordinator::Hangs{.round = 26, .all_say_so = true},
          coordinator::Blamed{.round = 27, .blame = {.rank = 3, .summary = "rank 3 is in read()"}}};
}

template <class Variant, std::size_t... I>
inline std::vector<Variant> defaults(std::index_sequence<I...> /*alternatives*/) {
  return {Variant(std::in_place_index<I>)...};
}
inline std::vector<FromAgent> default_from_agent() {
  return defaults<FromAgent>(std::make_index_sequence<std::variant_size_v<FromAgent>>{});
}
inline std::vector<FromCoordinator> default_from_coordinator() {
  return defaults<FromCoordinator>(
      std::make_index_sequence<std::variant_size_v<FromCoordinator>>{});
}

// Calls `check` with each message of both directions, full and with its defaults.
template <class Check>
void for_each_message(const Check& check) {
  for (const auto& messages : {full_from_agent(), default_from_agent()})
    for (const auto& message : messages) check(message);
  for (const auto& messages : {full_from_coordinator(), default_from_coordinator()})
    for (const auto& message : messages) check(message);
}

template <class Message>
void expect_whole(const ParsedFrame<Message>& parsed, const Message& message, std::size_t size) {
  SCOPED_TRACE("alternative " + std::to_string(message.index()));
  const auto* whole = std::get_if<WholeFrame<Message>>(&parsed);
  ASSERT_NE(whole, nullptr);
  EXPECT_TRUE(whole->message == message);
  EXPECT_EQ(whole->size, size);
}

}  // namespace regroup::wire::session_testing
