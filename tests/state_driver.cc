// Lets the Python tests drive the codec of the rendezvous state: commands on stdin, one answer line
// each on stdout. A state is the base64 of its pickle.
//
//   recode STATE              ok STATE    decoded and encoded again
//   random SEED NODES         ok STATE    some valid state, the same for the same numbers
//   same SEED NODES STATE     ok          if it is the state that `random SEED NODES` makes
//   show STATE                ok TEXT     what is in it, for people and for comparing
//
// or `error MESSAGE`.
#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <iterator>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "base/random.h"
#include "base/text.h"
#include "core/rendezvous/state.h"
#include "wire/bytes/base64.h"
#include "wire/pickle/pickle_writer.h"
#include "wire/rendezvous/rendezvous_state.h"

namespace {

using namespace regroup;
using namespace regroup::core::rendezvous;
using wire::Opcode;
using wire::PickleWriter;

// A command that makes no sense is a mistake of the test: say so and end.
[[noreturn]] void give_up(const std::string& why) {
  std::cerr << "state_driver: " << why << std::endl;
  std::exit(2);
}

// ---- Random states ----

std::int64_t random_number(SeededRandom& random) {
  const auto bits = random.below(64);  // All lengths, so that every way to write one is met.
  return static_cast<std::int64_t>(random.next() >> 1 >> bits);
}

std::string random_text(SeededRandom& random) {
  constexpr std::array<std::string_view, 10> kPieces{
      "node", "-", ".example", "7", "gpu", "\xc3\xa4", "\xe2\x82\xac", "\xf0\x9f\x9a\x80",
      " ",    ":"};
  std::string text;
  const auto pieces = random.one_in(30) ? 100 + random.below(50) : random.below(5);
  for (std::uint64_t i = 0; i < pieces; ++i) text += kPieces[random.below(kPieces.size())];
  return text;
}

Stamp random_stamp(SeededRandom& random) {
  constexpr std::int64_t kSecond = 1'000'000;
  constexpr std::int64_t kYearOne = -62'135'596'800 * kSecond;
  constexpr std::int64_t kYearTenThousand = 253'402'300'800 * kSecond;
  if (random.one_in(10))
    return {kYearOne + static_cast<std::int64_t>(random.below(kYearTenThousand - kYearOne))};
  return {1'700'000'000 * kSecond + static_cast<std::int64_t>(random.below(100'000'000 * kSecond))};
}

// As write_fragment() in wire would write it: without references, the members of sets sorted.
std::string random_value(SeededRandom& random, int depth) {
  PickleWriter out;
  std::vector<std::string> members(random.below(4));
  const auto fill = [&] {
    for (std::string& member : members) member = random_value(random, depth - 1);
  };
  // Keys are texts: True and 1 are one key for Python.
  const auto fill_with_texts = [&] {
    for (std::string& member : members) {
      PickleWriter text;
      text.text(random_text(random));
      member = text.take();
    }
    std::sort(members.begin(), members.end());
    members.erase(std::unique(members.begin(), members.end()), members.end());
  };
  const auto put = [&] {
    for (const std::string& member : members) out.raw(member);
  };
  switch (random.below(depth > 0 ? 9 : 5)) {
    case 0:
      out.op(Opcode::None);
      break;
    case 1:
      out.boolean(random.one_in(2));
      break;
    case 2:
      out.integer(random.one_in(2) ? random_number(random) : -random_number(random));
      break;
    case 3:
      out.text(random_text(random));
      break;
    case 4:
      out.bytes(random_text(random).substr(0, 255));
      break;
    case 5: {
      constexpr std::array kTuples{Opcode::EmptyTuple, Opcode::Tuple1, Opcode::Tuple2,
                                   Opcode::Tuple3};
      fill();
      put();
      out.op(kTuples[members.size()]);
      break;
    }
    case 6:
      fill();
      out.op(Opcode::EmptyList);
      if (members.empty()) break;
      out.op(Opcode::Mark);
      put();
      out.op(Opcode::Appends);
      break;
    case 7:
      fill_with_texts();
      out.op(Opcode::EmptySet);
      if (members.empty()) break;
      out.op(Opcode::Mark);
      put();
      out.op(Opcode::AddItems);
      break;
    case 8:
      fill_with_texts();
      out.op(Opcode::EmptyDict);
      if (members.empty()) break;
      out.op(Opcode::Mark);
      for (const std::string& member : members) {
        out.raw(member);
        out.raw(random_value(random, depth - 1));
      }
      out.op(Opcode::SetItems);
      break;
  }
  return out.take();
}

Claim random_claim(SeededRandom& random) {
  Claim claim;
  claim.name = random_text(random);
  if (random.one_in(2)) claim.wish = random_number(random);
  if (random.one_in(2))
    claim.held = HeldRank{random_number(random), random_number(random), random_number(random)};
  return claim;
}

State random_state(std::uint64_t seed, std::uint64_t nodes) {
  SeededRandom random(seed);
  State state;
  state.round = random_number(random) >> 1;
  state.complete = random.one_in(2);
  state.closed = random.one_in(5);
  if (random.one_in(2)) state.deadline = random_stamp(random);
  for (std::uint64_t i = 0; i < nodes; ++i) {
    NodeId node{.address = random_text(random), .pid = random_number(random), .local_id = 0};
    if (random.one_in(10)) node.pid = -node.pid;
    node.local_id = random.one_in(3) ? random_number(random) : static_cast<std::int64_t>(i);
    if (!random.one_in(10)) state.last_heartbeats[node] = random_stamp(random);
    const auto where = random.below(8);
    if (where < 4)
      state.participants[node] = random_number(random);
    else if (where == 4)
      state.wait_list.insert(node);
    else if (where == 5)
      state.redundancy_list.insert(node);
    if (where < 6 && random.one_in(2)) state.claims[node] = random_claim(random);
  }
  if (random.one_in(2)) state.seal = Seal{random_number(random), random_number(random)};
  // A state without times does not tell its dialect.
  if ((state.deadline || !state.last_heartbeats.empty()) && random.one_in(2))
    state.dialect = Dialect::NaiveTimes;
  for (std::uint64_t i = random.below(4); i > 0; --i)
    state.extra["extra_" + random_text(random)] = random_value(random, 3);
  return state;
}

// ---- For people ----

void put(std::ostream& out, const State& state, const NodeId& node) {
  out << ' ' << printable(node.address) << '/' << node.pid << '/' << node.local_id;
  const auto found = state.claims.find(node);
  if (found == state.claims.end()) return;
  const Claim& claim = found->second;
  out << "{name " << printable(claim.name);
  if (claim.wish) out << " wish " << *claim.wish;
  if (claim.held)
    out << " held " << claim.held->round << '.' << claim.held->rank << '.'
        << claim.held->world_size;
  out << '}';
}

std::string show(const State& state) {
  std::ostringstream out;
  out << "round " << state.round << (state.complete ? " complete" : " open")
      << (state.closed ? " closed" : "")
      << (state.dialect == Dialect::AwareTimes ? " aware" : " naive");
  if (state.deadline) out << " deadline " << state.deadline->micros;
  if (state.seal) out << " seal " << state.seal->round << ':' << state.seal->world_size;
  out << " participants [";
  for (const auto& [node, rank] : state.participants) {
    put(out, state, node);
    out << '=' << rank;
  }
  out << " ] wait_list [";
  for (const NodeId& node : state.wait_list) put(out, state, node);
  out << " ] redundancy_list [";
  for (const NodeId& node : state.redundancy_list) put(out, state, node);
  out << " ] last_heartbeats [";
  for (const auto& [node, heartbeat] : state.last_heartbeats)
    out << ' ' << printable(to_string(node)) << '=' << heartbeat.micros;
  out << " ] extra [";
  for (const auto& [name, fragment] : state.extra)
    out << ' ' << wire::encode_base64(name) << ':' << wire::encode_base64(fragment);
  out << " ]";
  return out.str();
}

// ---- Commands ----

std::uint64_t to_number(const std::string& word) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error != std::errc{} || end != word.data() + word.size()) give_up("no number: " + word);
  return value;
}

std::string encode(const State& state) { return wire::encode_base64(wire::encode_state(state)); }

Result<State> decode(const std::string& text) {
  return wire::decode_base64(text).and_then(
      [](const std::string& pickle) { return wire::decode_state(pickle); });
}

std::string answer(const std::vector<std::string>& words) {
  const auto is = [&](std::string_view command, std::size_t arguments) {
    return words[0] == command && words.size() == arguments + 1;
  };
  if (is("random", 2))
    return "ok " + encode(random_state(to_number(words[1]), to_number(words[2])));
  if (!is("recode", 1) && !is("show", 1) && !is("same", 3)) give_up("no command: " + words[0]);
  const auto state = decode(words.back());
  if (!state) return "error " + state.error().message;
  if (words[0] == "recode") return "ok " + encode(*state);
  if (words[0] == "show") return "ok " + show(*state);
  const State wanted = random_state(to_number(words[1]), to_number(words[2]));
  if (*state == wanted) return "ok";
  return "error wanted " + show(wanted) + ", got " + show(*state);
}

}  // namespace

int main() {
  std::ios::sync_with_stdio(false);
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream stream(line);
    const std::vector<std::string> words{std::istream_iterator<std::string>(stream), {}};
    if (words.empty()) give_up("an empty line");
    std::cout << answer(words) << std::endl;
  }
  return 0;
}
