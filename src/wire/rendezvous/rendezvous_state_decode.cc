#include <fmt/core.h>

#include <array>
#include <iterator>
#include <utility>

#include "base/text.h"
#include "wire/bytes/limits.h"
#include "wire/pickle/pickle_errors.h"
#include "wire/pickle/pickle_fragment.h"
#include "wire/pickle/pickle_reader.h"
#include "wire/pickle/rendezvous_names.h"
#include "wire/rendezvous/claim_text.h"
#include "wire/rendezvous/rendezvous_state.h"

namespace regroup::wire {
namespace {

using core::rendezvous::Dialect;
using core::rendezvous::NodeId;
using core::rendezvous::Stamp;
using core::rendezvous::State;

// The most that encode_state() writes for one of these beside its texts.
constexpr std::size_t kListedNodeBytes = 64;
constexpr std::size_t kHeartbeatBytes = 80;
constexpr std::size_t kEmptyStateBytes = 512;

// Reads the attributes of the state one by one. Each step returns false once something is wrong;
// error_ then says what.
class Decoder {
 public:
  explicit Decoder(const PickleGraph& graph) : graph_(graph) {}

  Result<State> run() {
    if (collect() && require(kRoundAttribute, round_) && read_round() &&
        read_bool(kCompleteAttribute, complete_, state_.complete) && read_deadline() &&
        read_bool(kClosedAttribute, closed_, state_.closed) && read_participants() &&
        read_list(kWaitListAttribute, wait_list_, state_.wait_list) &&
        read_list(kRedundancyListAttribute, redundancy_list_, state_.redundancy_list) &&
        read_heartbeats() && read_seal() && read_extra())
      return std::move(state_);
    return tl::unexpected(std::move(error_));
  }

 private:
  // As in Python, the last of two attributes with one name counts.
  bool collect() {
    const PickleValue& attributes = graph_[graph_[graph_.root()].first];
    if (attributes.size > 2 * kStateAttributes)
      return refuse(fmt::format("it has more than {} attributes", kStateAttributes));
    const std::array<std::pair<std::string_view, PickleRef*>, 9> known{{
        {kRoundAttribute, &round_},
        {kCompleteAttribute, &complete_},
        {kDeadlineAttribute, &deadline_},
        {kClosedAttribute, &closed_},
        {kParticipantsAttribute, &participants_},
        {kWaitListAttribute, &wait_list_},
        {kRedundancyListAttribute, &redundancy_list_},
        {kLastHeartbeatsAttribute, &last_heartbeats_},
        {kRegroupAttribute, &regroup_},
    }};
    if (!graph_.each_entry(attributes, [&](PickleRef key, PickleRef value) {
          if (graph_[key].kind != PickleKind::Text)
            return refuse_at(key, "an attribute has a name that is no text");
          const std::string_view name = graph_.text(graph_[key]);
          for (const auto& [known_name, place] : known)
            if (name == known_name) {
              *place = value;
              return true;
            }
          extra_[name] = value;
          return true;
        }))
      return false;
    if (redundancy_list_ == kNoPickleRef && wait_list_ != kNoPickleRef) {
      error_ = outdated_state("it has no 'redundancy_list', as before PyTorch 2.3").value();
      return false;
    }
    return true;
  }

  bool read_round() {
    const PickleValue& value = graph_[round_];
    if (value.kind != PickleKind::Int) return refuse_kind(kRoundAttribute, round_, "an int");
    if (value.number < 0) return refuse_at(round_, "attribute 'round' is negative");
    if (value.number > kMostRounds) return refuse_at(round_, "attribute 'round' is too large");
    state_.round = value.number;
    return true;
  }

  bool read_bool(std::string_view name, PickleRef ref, bool& out) {
    if (!require(name, ref)) return false;
    if (graph_[ref].kind != PickleKind::Bool) return refuse_kind(name, ref, "a bool");
    out = graph_[ref].number != 0;
    return true;
  }

  bool read_deadline() {
    if (!require(kDeadlineAttribute, deadline_)) return false;
    const PickleValue& value = graph_[deadline_];
    if (value.kind == PickleKind::None) return true;
    if (value.kind != PickleKind::Time)
      return refuse_kind(kDeadlineAttribute, deadline_, "None or a datetime");
    state_.deadline = Stamp{value.number};
    return agree_on_dialect(kDeadlineAttribute, deadline_);
  }

  bool read_participants() {
    if (!require(kParticipantsAttribute, participants_)) return false;
    const PickleValue& dict = graph_[participants_];
    if (dict.kind != PickleKind::Dict)
      return refuse_kind(kParticipantsAttribute, participants_, "a dict");
    return graph_.each_entry(dict, [&](PickleRef key, PickleRef rank_ref) {
      const PickledNode* node = read_node(kParticipantsAttribute, key);
      if (!node || !spend(kListedNodeBytes + node->address.size() + node->regroup.size()))
        return false;
      const PickleValue& rank = graph_[rank_ref];
      if (rank.kind != PickleKind::Int || rank.number < 0)
        return refuse_at(rank_ref, fmt::format("in attribute 'participants' the rank of {} is {}",
                                               printable(node->address), describe(rank)));
      const std::size_t before = state_.participants.size();
      const auto place = state_.participants.try_emplace(state_.participants.end(), id(*node));
      place->second = rank.number;
      // Of two equal keys Python keeps the first, and with it the first one's claim.
      if (state_.participants.size() > before) read_claim(place->first, *node);
      return true;
    });
  }

  bool read_list(std::string_view name, PickleRef ref, std::set<NodeId>& out) {
    if (!require(name, ref)) return false;
    const PickleValue& set = graph_[ref];
    if (set.kind != PickleKind::Set) return refuse_kind(name, ref, "a set");
    return graph_.each(set, [&](PickleRef member) {
      const PickledNode* node = read_node(name, member);
      if (!node || !spend(kListedNodeBytes + node->address.size() + node->regroup.size()))
        return false;
      const std::size_t before = out.size();
      const auto place = out.emplace_hint(out.end(), id(*node));
      if (out.size() > before) read_claim(*place, *node);
      return true;
    });
  }

  bool read_heartbeats() {
    if (!require(kLastHeartbeatsAttribute, last_heartbeats_)) return false;
    const PickleValue& dict = graph_[last_heartbeats_];
    if (dict.kind != PickleKind::Dict)
      return refuse_kind(kLastHeartbeatsAttribute, last_heartbeats_, "a dict");
    return graph_.each_entry(dict, [&](PickleRef key, PickleRef time_ref) {
      const PickledNode* node = read_node(kLastHeartbeatsAttribute, key);
      if (!node || !spend(kHeartbeatBytes + node->address.size())) return false;
      const PickleValue& time = graph_[time_ref];
      if (time.kind != PickleKind::Time)
        return refuse_at(time_ref,
                         fmt::format("in attribute 'last_heartbeats' the time of {} is {}",
                                     printable(node->address), describe(time)));
      state_.last_heartbeats.try_emplace(state_.last_heartbeats.end(), id(*node))->second =
          Stamp{time.number};
      return agree_on_dialect(kLastHeartbeatsAttribute, time_ref);
    });
  }

  bool read_seal() {
    if (regroup_ != kNoPickleRef && graph_[regroup_].kind == PickleKind::Text)
      state_.seal = parse_seal(graph_.text(graph_[regroup_]));
    return true;
  }

  bool read_extra() {
    std::size_t left = kExtraBytes;
    for (const auto& [name, ref] : extra_) {
      if (name.size() > left) return refuse("attribute " + printable(name) + " is too large");
      left -= name.size();
      auto fragment = write_fragment(graph_, ref, left);
      if (!fragment)
        return refuse_at(ref,
                         fmt::format("attribute {} {}", printable(name), fragment.error().message));
      left -= fragment->size();
      state_.extra.emplace_hint(state_.extra.end(), name, std::move(*fragment));
    }
    return spend(kExtraBytes - left + kEmptyStateBytes);
  }

  const PickledNode* read_node(std::string_view attribute, PickleRef ref) {
    const PickleValue& value = graph_[ref];
    if (value.kind == PickleKind::Node && graph_.node(value).complete) return &graph_.node(value);
    refuse_at(ref, fmt::format("attribute {} holds {} in place of a node", printable(attribute),
                               describe(value)));
    return nullptr;
  }

  static NodeId id(const PickledNode& node) {
    return {.address = std::string(node.address), .pid = node.pid, .local_id = node.local_id};
  }

  void read_claim(const NodeId& id, const PickledNode& node) {
    if (node.regroup.data() == nullptr) return;
    if (auto claim = parse_claim(node.regroup))
      state_.claims.try_emplace(state_.claims.end(), id, std::move(*claim));
  }

  bool agree_on_dialect(std::string_view attribute, PickleRef ref) {
    const Dialect found = graph_[ref].aware ? Dialect::AwareTimes : Dialect::NaiveTimes;
    if (std::exchange(has_time_, true) && found != state_.dialect)
      return refuse_at(
          ref, "attribute " + printable(attribute) + " mixes times with and without a timezone");
    state_.dialect = found;
    return true;
  }

  // A small pickle can name one long address many times. A state that could not be read again after
  // we wrote it is refused now.
  bool spend(std::size_t bytes) {
    spent_ += bytes;
    return spent_ <= kStateBytes ||
           refuse(fmt::format("written again it would have more than {} bytes", kStateBytes));
  }

  static std::string describe(const PickleValue& value) {
    if (value.kind == PickleKind::Int) return std::to_string(value.number);
    if (value.kind == PickleKind::Node) return "a node without attributes";
    return std::string(to_string(value.kind));
  }

  bool require(std::string_view name, PickleRef ref) {
    return ref != kNoPickleRef || refuse("attribute " + printable(name) + " is missing");
  }
  bool refuse_kind(std::string_view name, PickleRef ref, std::string_view wanted) {
    return refuse_at(ref, fmt::format("attribute {} is {} and not {}", printable(name),
                                      to_string(graph_[ref].kind), wanted));
  }
  bool refuse_at(PickleRef ref, const std::string& what) {
    return refuse(fmt::format("{} (at byte {})", what, graph_[ref].at));
  }
  bool refuse(const std::string& what) {
    error_ = corrupt_state(what).value();
    return false;
  }

  const PickleGraph& graph_;
  State state_;
  Error error_{ErrorKind::Protocol, {}};
  std::size_t spent_ = 0;
  bool has_time_ = false;

  PickleRef round_ = kNoPickleRef;
  PickleRef complete_ = kNoPickleRef;
  PickleRef deadline_ = kNoPickleRef;
  PickleRef closed_ = kNoPickleRef;
  PickleRef participants_ = kNoPickleRef;
  PickleRef wait_list_ = kNoPickleRef;
  PickleRef redundancy_list_ = kNoPickleRef;
  PickleRef last_heartbeats_ = kNoPickleRef;
  PickleRef regroup_ = kNoPickleRef;
  std::map<std::string_view, PickleRef> extra_;
};

}  // namespace

Result<State> decode_state(std::string_view pickle) {
  const auto graph = read_pickle(pickle);
  if (!graph) return tl::unexpected(graph.error());
  return Decoder(*graph).run();
}

}  // namespace regroup::wire
