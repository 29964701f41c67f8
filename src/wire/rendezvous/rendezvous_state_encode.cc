#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "base/check.h"
#include "wire/bytes/limits.h"
#include "wire/pickle/pickle_writer.h"
#include "wire/pickle/rendezvous_names.h"
#include "wire/rendezvous/claim_text.h"
#include "wire/rendezvous/rendezvous_state.h"

namespace regroup::wire {
namespace {

using core::rendezvous::Claim;
using core::rendezvous::Dialect;
using core::rendezvous::NodeId;
using core::rendezvous::Stamp;
using core::rendezvous::State;

struct WrittenNode {
  const NodeId* node;
  std::uint32_t number;
};

const NodeId& key(const NodeId& node) { return node; }
const NodeId& key(const WrittenNode& written) { return *written.node; }
template <class T>
const NodeId& key(const std::pair<const NodeId, T>& entry) {
  return entry.first;
}

// Finds nodes in a sorted container. They are asked for in ascending order, so all the questions
// together cost one walk.
template <class Container>
class Walk {
 public:
  explicit Walk(const Container& container) : at_(container.begin()), end_(container.end()) {}

  // Null: it is not there.
  const typename Container::value_type* find(const NodeId& node) {
    while (at_ != end_ && key(*at_) < node) ++at_;
    return at_ != end_ && key(*at_) == node ? &*at_ : nullptr;
  }

 private:
  typename Container::const_iterator at_;
  typename Container::const_iterator end_;
};

class Encoder {
 public:
  explicit Encoder(const State& state) : state_(state), out_(expected_size(state)) {}

  std::string run() {
    out_.ops(Opcode::Proto, 4);
    write_class(kTorchModule, torch_module_, kStateClass);
    out_.ops(Opcode::EmptyTuple, Opcode::NewObj, Opcode::EmptyDict, Opcode::Mark);
    write_flags();
    // Before the lists, and so not in Python's order: each node is written once, here, and the
    // lists name it by its number. The classes of times get low numbers, which are the short ones.
    write_heartbeats();
    write_participants();
    write_list(kWaitListAttribute, state_.wait_list);
    write_list(kRedundancyListAttribute, state_.redundancy_list);
    if (state_.seal) {
      write_name(kRegroupAttribute, regroup_);
      out_.text(write_seal(*state_.seal));
    }
    for (const auto& [name, fragment] : state_.extra) {
      out_.text(name);
      out_.raw(fragment);
    }
    out_.ops(Opcode::SetItems, Opcode::Build, Opcode::Stop);
    return out_.take();
  }

 private:
  // The number under which something can be repeated, once it has been written.
  using Memo = std::optional<std::uint32_t>;

  static std::size_t expected_size(const State& state) {
    constexpr std::size_t kNodeBytes = 96;
    return 512 + kNodeBytes * (state.last_heartbeats.size() + state.claims.size());
  }

  void write_flags() {
    out_.text(kRoundAttribute);
    out_.integer(state_.round);
    out_.text(kCompleteAttribute);
    out_.boolean(state_.complete);
    out_.text(kDeadlineAttribute);
    if (state_.deadline)
      write_time(*state_.deadline);
    else
      out_.op(Opcode::None);
    out_.text(kClosedAttribute);
    out_.boolean(state_.closed);
  }

  void write_heartbeats() {
    out_.text(kLastHeartbeatsAttribute);
    out_.op(Opcode::EmptyDict);
    if (state_.last_heartbeats.empty()) return;
    out_.op(Opcode::Mark);
    Walk participants(state_.participants);
    Walk waiting(state_.wait_list);
    Walk redundant(state_.redundancy_list);
    Walk claims(state_.claims);
    written_.reserve(state_.last_heartbeats.size());
    for (const auto& [node, heartbeat] : state_.last_heartbeats) {
      const auto* claim = claims.find(node);
      const bool listed =
          claim && (participants.find(node) || waiting.find(node) || redundant.find(node));
      write_node(node, listed ? &claim->second : nullptr);
      written_.push_back({&node, out_.memoize()});
      write_time(heartbeat);
    }
    out_.op(Opcode::SetItems);
  }

  void write_participants() {
    out_.text(kParticipantsAttribute);
    out_.op(Opcode::EmptyDict);
    if (state_.participants.empty()) return;
    out_.op(Opcode::Mark);
    Walk written(written_);
    Walk claims(state_.claims);
    for (const auto& [node, rank] : state_.participants) {
      write_listed(node, written, claims);
      out_.integer(rank);
    }
    out_.op(Opcode::SetItems);
  }

  void write_list(std::string_view name, const std::set<NodeId>& nodes) {
    out_.text(name);
    out_.op(Opcode::EmptySet);
    if (nodes.empty()) return;
    out_.op(Opcode::Mark);
    Walk written(written_);
    Walk claims(state_.claims);
    for (const NodeId& node : nodes) write_listed(node, written, claims);
    out_.op(Opcode::AddItems);
  }

  void write_listed(const NodeId& node, Walk<std::vector<WrittenNode>>& written,
                    Walk<std::map<NodeId, Claim>>& claims) {
    if (const WrittenNode* before = written.find(node)) return out_.get(before->number);
    const auto* claim = claims.find(node);
    write_node(node, claim ? &claim->second : nullptr);
  }

  void write_node(const NodeId& node, const Claim* claim) {
    CHECK(node.address.size() <= kAddressBytes);
    if (!repeat(node_class_)) {
      write_class(kTorchModule, torch_module_, kNodeClass);
      node_class_ = out_.memoize();
    }
    out_.ops(Opcode::EmptyTuple, Opcode::NewObj, Opcode::EmptyDict, Opcode::Mark);
    write_name(kAddrAttribute, addr_);
    out_.text(node.address);
    write_name(kPidAttribute, pid_);
    out_.integer(node.pid);
    write_name(kLocalIdAttribute, local_id_);
    out_.integer(node.local_id);
    if (claim) {
      const std::string text = write_claim(*claim);
      CHECK(text.size() <= kClaimBytes);
      write_name(kRegroupAttribute, regroup_);
      out_.text(text);
    }
    out_.ops(Opcode::SetItems, Opcode::Build);
  }

  void write_time(Stamp stamp) {
    if (!repeat(datetime_class_)) {
      write_class(kDatetimeModule, datetime_module_, kDatetimeClass);
      datetime_class_ = out_.memoize();
    }
    out_.datetime_bytes(stamp.micros);
    switch (state_.dialect) {
      case Dialect::NaiveTimes:
        out_.ops(Opcode::Tuple1, Opcode::Reduce);
        return;
      case Dialect::AwareTimes:
        write_utc();
        out_.ops(Opcode::Tuple2, Opcode::Reduce);
        return;
    }
  }

  // timezone(timedelta(0, 0, 0))
  void write_utc() {
    if (repeat(utc_)) return;
    write_class(kDatetimeModule, datetime_module_, kTimezoneClass);
    write_class(kDatetimeModule, datetime_module_, kTimedeltaClass);
    for (int i = 0; i < 3; ++i) out_.integer(0);
    out_.ops(Opcode::Tuple3, Opcode::Reduce, Opcode::Tuple1, Opcode::Reduce);
    utc_ = out_.memoize();
  }

  void write_class(std::string_view module, Memo& module_memo, std::string_view name) {
    write_name(module, module_memo);
    out_.text(name);
    out_.op(Opcode::StackGlobal);
  }

  void write_name(std::string_view name, Memo& memo) {
    if (repeat(memo)) return;
    out_.text(name);
    memo = out_.memoize();
  }

  bool repeat(Memo memo) {
    if (memo) out_.get(*memo);
    return memo.has_value();
  }

  const State& state_;
  PickleWriter out_;
  std::vector<WrittenNode> written_;  // In last_heartbeats, so sorted.
  Memo torch_module_, node_class_, addr_, pid_, local_id_, regroup_;
  Memo datetime_module_, datetime_class_, utc_;
};

}  // namespace

std::string encode_state(const State& state) { return Encoder(state).run(); }

}  // namespace regroup::wire
