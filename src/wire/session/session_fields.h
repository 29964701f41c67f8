// The kinds of the session protocol and the fields of each, in the order of the wire. Included by
// session.cc only.
//
// One list of fields serves both directions: a codec that writes takes what it is shown, one that
// reads fills it in, so the two cannot diverge. Fields are only ever added at the end of a message
// (added()), never inside a part of it (Claim, Failure): an older peer finds the rest by position,
// and ignores what it does not know.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "core/coordinator/messages.h"
#include "core/run/run_rules.h"
#include "wire/bytes/limits.h"

namespace regroup::wire::session {

namespace coordinator = core::coordinator;
namespace rendezvous = core::rendezvous;
namespace run = core::run;

// What is at the front of a hello. A newer peer may say more.
inline constexpr std::uint32_t kVersion = std::max<std::uint32_t>(2, run::newest_rule());

struct Kind {
  std::uint8_t number;
  const char* name;
};

template <class Message>
inline constexpr Kind kKind{};
template <>
inline constexpr Kind kKind<coordinator::Hello>{1, "hello"};
template <>
inline constexpr Kind kKind<coordinator::Join>{2, "join"};
template <>
inline constexpr Kind kKind<coordinator::Failed>{3, "failed"};
template <>
inline constexpr Kind kKind<coordinator::Done>{4, "done"};
template <>
inline constexpr Kind kKind<coordinator::Leave>{5, "leave"};
template <>
inline constexpr Kind kKind<coordinator::Ping>{6, "ping"};
template <>
inline constexpr Kind kKind<coordinator::Look>{7, "look"};
template <>
inline constexpr Kind kKind<coordinator::Warn>{8, "warn"};
template <>
inline constexpr Kind kKind<coordinator::Prove>{9, "prove"};
template <>
inline constexpr Kind kKind<coordinator::AgentProof>{10, "proof"};
template <>
inline constexpr Kind kKind<coordinator::Stalled>{11, "stalled"};
template <>
inline constexpr Kind kKind<coordinator::Where>{12, "where"};
template <>
inline constexpr Kind kKind<coordinator::Welcome>{65, "welcome"};
template <>
inline constexpr Kind kKind<coordinator::Progress>{66, "progress"};
template <>
inline constexpr Kind kKind<coordinator::Sealed>{67, "sealed"};
template <>
inline constexpr Kind kKind<coordinator::Stop>{68, "stop"};
template <>
inline constexpr Kind kKind<coordinator::Over>{69, "over"};
template <>
inline constexpr Kind kKind<coordinator::Refused>{70, "refused"};
template <>
inline constexpr Kind kKind<coordinator::Pong>{71, "pong"};
template <>
inline constexpr Kind kKind<coordinator::Report>{72, "report"};
template <>
inline constexpr Kind kKind<coordinator::Warned>{73, "warned"};
template <>
inline constexpr Kind kKind<coordinator::Challenge>{74, "challenge"};
template <>
inline constexpr Kind kKind<coordinator::CoordinatorProof>{75, "proof"};

template <>
inline constexpr Kind kKind<coordinator::Hangs>{76, "hangs"};
template <>
inline constexpr Kind kKind<coordinator::Blamed>{77, "blamed"};

// `Of<T>` is const T for a codec that writes, T for one that reads.
template <class Codec, class T>
using Of = typename Codec::template Of<T>;

// ---- Parts of messages ----

// What identifies a node is also in the state that nodes without a session read, so it has the
// limits of that state (rendezvous_state.h): a coordinator could not show the state otherwise.
template <class Codec>
void fields(Codec& codec, Of<Codec, rendezvous::NodeId>& node) {
  codec.shared_text("the node's address", node.address, kAddressBytes);
  codec.number("the node's pid", node.pid);
  codec.number("the node's local id", node.local_id);
}

template <class Codec>
void fields(Codec& codec, Of<Codec, rendezvous::HeldRank>& held) {
  codec.count("the held round", held.round);
  codec.count("the held rank", held.rank);
  codec.count("the held world size", held.world_size);
}

template <class Codec>
void fields(Codec& codec, Of<Codec, rendezvous::Claim>& claim) {
  codec.shared_text("the node's name", claim.name, kNodeNameBytes);
  codec.optional("the wish", claim.wish, [&](auto& wish) { codec.count("the wish", wish); });
  codec.optional("the held rank", claim.held, [&](auto& held) { fields(codec, held); });
}

template <class Codec>
void rule(Codec& codec, const run::RuleRow& row, Of<Codec, std::int64_t>& value) {
  codec.count(row.text, value, {.least = row.least});
}
template <class Codec>
void rule(Codec& codec, const run::RuleRow& row, Of<Codec, Duration>& value) {
  codec.duration(row.text, value);
}
template <class Codec>
void rule(Codec& codec, const run::RuleRow& row, Of<Codec, bool>& value) {
  codec.flag(row.text, value);
}
template <class Codec>
void rule(Codec& codec, const run::RuleRow& row, Of<Codec, std::vector<std::int64_t>>& value) {
  codec.numbers(row.text, value);
}
template <class Codec>
void rule(Codec& codec, const run::RuleRow& row, Of<Codec, std::optional<std::int64_t>>& value) {
  codec.optional(row.text, value,
                 [&](auto& number) { codec.count(row.text, number, {.least = row.least}); });
}

// The rules that this version of the protocol added.
template <class Codec>
void rules_since(Codec& codec, Of<Codec, RunRules>& rules, std::uint32_t version) {
  run::for_each_rule([&](const run::RuleRow& row, auto member) {
    if (row.since == version) rule(codec, row, rules.*member);
  });
}

// The rules of versions later than 2, at the end of a message.
template <class Codec>
void newer_rules(Codec& codec, Of<Codec, RunRules>& rules) {
  for (std::uint32_t version = 3; version <= run::newest_rule(); ++version)
    codec.added([&] { rules_since(codec, rules, version); });
}

template <class Codec>
void fields(Codec& codec, Of<Codec, coordinator::Bootstrap>& bootstrap) {
  codec.text("the bootstrap address", bootstrap.address);
  codec.number("the bootstrap port", bootstrap.port);
}

template <class Codec>
void fields(Codec& codec, Of<Codec, coordinator::Running>& running) {
  fields(codec, running.place);
  codec.count("the restart count", running.restart_count);
  codec.flag("the mark of being done", running.done);
}

template <class Codec>
void fields(Codec& codec, Of<Codec, coordinator::Failure>& failure) {
  codec.number("the failed rank", failure.rank);
  codec.text("the failed node", failure.node);
  codec.number("the exit code", failure.exit_code);
  codec.text("the failure", failure.text);
}

template <class Codec>
void fields(Codec& codec, Of<Codec, rendezvous::AssignedRanks>& ranks) {
  codec.count("the base rank", ranks.base_global_rank);
  codec.count("the workers' world size", ranks.global_world_size);
  codec.count("the base role rank", ranks.base_role_rank);
  codec.count("the role's world size", ranks.role_world_size);
}

// ---- An agent says ----

template <class Codec>
void fields(Codec& codec, Of<Codec, coordinator::Hello>& hello) {
  codec.version(kVersion);
  codec.text("the run id", hello.run_id);
  fields(codec, hello.node);
  fields(codec, hello.claim);
  codec.text("the role", hello.role);
  codec.count("the number of workers", hello.workers, {.least = 1, .most = kSessionWorkers});
  codec.optional("the running round", hello.running,
                 [&](auto& running) { fields(codec, running); });
  codec.count("the restarts so far", hello.restarts);
  codec.flag("the mark of coming again", hello.again);
  rules_since(codec, hello.rules, 1);
  codec.added([&] {
    rules_since(codec, hello.rules, 2);
    codec.text("the group", hello.claim.group);
  });
  newer_rules(codec, hello.rules);
}

template <class Codec>
void fields(Codec& codec, Of<Codec, coordinator::Join>& join) {
  codec.number("the number", join.number);
  fields(codec, join.bootstrap);
}

template <class Codec>
void fields(Codec& codec, Of<Codec, coordinator::Failed>& failed) {
  codec.count("the round", failed.round);
  fields(codec, failed.failure);
}

template <class Codec>
void fields(Codec& codec, Of<Codec, coordinator::Done>& done) {
  codec.count("the round", done.round);
}

template <class Codec>
void fields(Codec& codec, Of<Codec, coordinator::Leave>& leave) {
  codec.text("the reason", leave.why);
  codec.flag("the mark of closing", leave.close);
}

template <class Codec>
void fields(Codec& codec, Of<Codec, coordinator::Ping>& ping) {
  codec.number("the number", ping.number);
}

template <class Codec>
void fields(Codec& codec, Of<Codec, coordinator::Look>& look) {
  codec.text("the run id", look.run_id);
}

template <class Codec>
void fields(Codec& codec, Of<Codec, coordinator::Warn>& warn) {
  codec.count("the signal", warn.signal, {.least = 1, .most = 64});
}

template <class Codec>
void fields(Codec& codec, Of<Codec, coordinator::Prove>& prove) {
  codec.bytes32("the nonce", prove.nonce);
}

template <class Codec>
void fields(Codec& codec, Of<Codec, coordinator::AgentProof>& proof) {
  codec.bytes32("the proof", proof.proof);
}

template <class Codec>
void fields(Codec& codec, Of<Codec, coordinator::Stalled>& stalled) {
  codec.count("the round", stalled.round);
  codec.optional("the votes", stalled.votes, [&](auto& votes) {
    codec.number("the suspects", votes.suspects);
    codec.number("the spinning", votes.spinning);
  });
}

template <class Codec>
void fields(Codec& codec, Of<Codec, coordinator::Where>& where) {
  codec.count("the round", where.round);
  codec.ranks("the list of ranks", where.ranks);
}

// ---- The coordinator says ----

template <class Codec>
void fields(Codec& codec, Of<Codec, coordinator::Welcome>& welcome) {
  codec.flag("the mark of a member", welcome.member);
  rules_since(codec, welcome.rules, 1);
  codec.added([&] { rules_since(codec, welcome.rules, 2); });
  newer_rules(codec, welcome.rules);
}

template <class Codec>
void fields(Codec& codec, Of<Codec, coordinator::Progress>& progress) {
  codec.text("the text", progress.text);
  codec.text("the brief text", progress.brief);
  codec.optional("the last call", progress.last_call,
                 [&](auto& left) { codec.duration("the last call", left); });
  codec.flag("the mark of a spare", progress.spare);
}

template <class Codec>
void fields(Codec& codec, Of<Codec, coordinator::Sealed>& sealed) {
  codec.count("the round", sealed.round);
  codec.count("the rank", sealed.rank);
  codec.count("the world size", sealed.world_size);
  codec.count("the restart count", sealed.restart_count);
  codec.flag("the mark of sessions", sealed.by_session);
  fields(codec, sealed.ranks);
  fields(codec, sealed.bootstrap);
}

template <class Codec>
void fields(Codec& codec, Of<Codec, coordinator::Stop>& stop) {
  codec.count("the round", stop.round);
  codec.choice("the kind of stop", stop.why, coordinator::Stop::Why::Closed);
  codec.text("the text", stop.text);
  codec.text("the note", stop.note);
  codec.optional("the verdict", stop.verdict, [&](auto& verdict) { fields(codec, verdict); });
  fields(codec, stop.culprit);
  codec.count("the restart count", stop.restart_count);
}

template <class Codec>
void fields(Codec&, Of<Codec, coordinator::Over>&) {}

template <class Codec>
void fields(Codec& codec, Of<Codec, coordinator::Refused>& refused) {
  codec.text("the reason", refused.why);
  codec.flag("the mark of lasting", refused.lasting);
}

template <class Codec>
void fields(Codec& codec, Of<Codec, coordinator::Pong>& pong) {
  codec.number("the number", pong.number);
}

template <class Codec>
void fields(Codec& codec, Of<Codec, coordinator::Report>& report) {
  codec.long_text("the report", report.json);
}

template <class Codec>
void fields(Codec& codec, Of<Codec, coordinator::Warned>& warned) {
  codec.count("the signal", warned.signal, {.least = 1, .most = 64});
  codec.text("the node", warned.node);
}

template <class Codec>
void fields(Codec& codec, Of<Codec, coordinator::Challenge>& challenge) {
  codec.bytes32("the nonce", challenge.nonce);
}

template <class Codec>
void fields(Codec& codec, Of<Codec, coordinator::CoordinatorProof>& proof) {
  codec.bytes32("the proof", proof.proof);
}

template <class Codec>
void fields(Codec& codec, Of<Codec, coordinator::Hangs>& hangs) {
  codec.count("the round", hangs.round);
  codec.flag("the mark of a hang", hangs.all_say_so);
}

template <class Codec>
void fields(Codec& codec, Of<Codec, coordinator::Blamed>& blamed) {
  codec.count("the round", blamed.round);
  codec.optional("the blamed rank", blamed.blame.rank,
                 [&](auto& rank) { codec.number("the blamed rank", rank); });
  codec.text("the summary", blamed.blame.summary);
}

}  // namespace regroup::wire::session
