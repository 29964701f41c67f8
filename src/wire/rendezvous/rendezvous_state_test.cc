#include "wire/rendezvous/rendezvous_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <set>
#include <string>
#include <string_view>

#include "wire/bytes/limits.h"
#include "wire/pickle/pickle_testing.h"
#include "wire/pickle/pickle_writer.h"

namespace regroup::wire {
namespace {

using namespace core::rendezvous;
using namespace pickle_testing;
using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

// Written by PyTorch 2.14 (the newer has the same but for the second byte) and by 1.13: round 2,
// two participants, one that waits.
const std::string kFromTorch214 = unhex(
    "80059501020000000000008c37746f7263682e64697374726962757465642e656c61737469632e72656e64657a766f"
    "75"
    "732e64796e616d69635f72656e64657a766f7573948c105f52656e64657a766f757353746174659493942981947d94"
    "28"
    "8c05726f756e64944b028c08636f6d706c65746594898c08646561646c696e65948c086461746574696d65948c0864"
    "61"
    "746574696d65949394430a07e8050607082801e2409468088c0874696d657a6f6e6594939468088c0974696d656465"
    "6c"
    "74619493944b004b004b008794529485945294869452948c06636c6f73656494898c0c7061727469636970616e7473"
    "94"
    "7d942868008c095f4e6f6465446573639493942981947d94288c0461646472948c0e6e6f64652d612e6578616d706c"
    "65"
    "948c03706964944de9038c086c6f63616c5f6964944b0075624b00681a2981947d9428681d8c0e6e6f64652d622e65"
    "78"
    "616d706c6594681f4dea0368204b0075624b01758c09776169745f6c697374948f9428681a2981947d9428681d8c0e"
    "6e"
    "6f64652d632e6578616d706c6594681f4deb0368204b007562908c0f726564756e64616e63795f6c697374948f948c"
    "0f"
    "6c6173745f68656172746265617473947d9428681b680a430a07e8050607080901e240946813869452946821680a43"
    "0a"
    "07e8050607080a01e240946813869452946826680a430a07e8050607080b01e240946813869452947575622e");
const std::string kFromTorch113 = unhex(
    "800495ba010000000000008c37746f7263682e64697374726962757465642e656c61737469632e72656e64657a766f"
    "75"
    "732e64796e616d69635f72656e64657a766f7573948c105f52656e64657a766f757353746174659493942981947d94"
    "28"
    "8c05726f756e64944b028c08636f6d706c65746594898c08646561646c696e65948c086461746574696d65948c0864"
    "61"
    "746574696d65949394430a07e8050607082801e24094859452948c06636c6f73656494898c0c706172746963697061"
    "6e"
    "7473947d942868008c095f4e6f6465446573639493942981947d94288c046671646e948c0e6e6f64652d612e657861"
    "6d"
    "706c65948c03706964944de9038c086c6f63616c5f6964944b0075624b0068122981947d942868158c0e6e6f64652d"
    "62"
    "2e6578616d706c659468174dea0368184b0075624b01758c09776169745f6c697374948f942868122981947d942868"
    "15"
    "8c0e6e6f64652d632e6578616d706c659468174deb0368184b007562908c0f6c6173745f6865617274626561747394"
    "7d"
    "94286813680a430a07e8050607080901e24094859452946819680a430a07e8050607080a01e2409485945294681e68"
    "0a"
    "430a07e8050607080b01e24094859452947575622e");

// 2024-05-06 07:08:00.123456
constexpr std::int64_t kMorning = 1'714'979'280'123'456;
constexpr std::int64_t kSecond = 1'000'000;

State morning_state() {
  const NodeId a{"node-a.example", 1001, 0};
  const NodeId b{"node-b.example", 1002, 0};
  const NodeId c{"node-c.example", 1003, 0};
  State state;
  state.round = 2;
  state.deadline = Stamp{kMorning + 40 * kSecond};
  state.participants = {{a, 0}, {b, 1}};
  state.wait_list = {c};
  state.last_heartbeats = {{a, {kMorning + 9 * kSecond}},
                           {b, {kMorning + 10 * kSecond}},
                           {c, {kMorning + 11 * kSecond}}};
  return state;
}

// With something of everything.
State rich_state(int nodes) {
  State state;
  state.round = 70'000;
  state.complete = true;
  state.closed = true;
  state.dialect = Dialect::NaiveTimes;
  state.seal = Seal{70'000, 5};
  state.extra = {{"new", integer(-5)}, {"newer", none() + none() + "\x86"}};
  for (int i = 0; i < nodes; ++i) {
    const std::string address =
        std::string(i % 7 == 6 ? 300 : 0, 'x') + "node-" + std::to_string(i);
    const NodeId node{address, i % 5 == 0 ? INT64_MAX - i : i * 1000, i % 3};
    if (i % 4 == 0)
      state.wait_list.insert(node);
    else if (i % 4 == 1)
      state.redundancy_list.insert(node);
    else
      state.participants[node] = i * 200;
    if (i % 9 != 8) state.last_heartbeats[node] = Stamp{kMorning + i};
    if (i % 3 == 0) state.claims[node] = Claim{"name-" + std::to_string(i), i, HeldRank{i, i, i}};
  }
  state.last_heartbeats[NodeId{"listed nowhere", 1, 1}] = Stamp{-1};
  return state;
}

std::string complaint(const std::string& pickle) {
  const auto state = decode_state(pickle);
  if (state) return "accepted";
  const bool outdated = state.error().message.find("too old") != std::string::npos;
  EXPECT_EQ(state.error().kind, outdated ? ErrorKind::Unsupported : ErrorKind::Protocol);
  EXPECT_THAT(state.error().message, StartsWith("the rendezvous state "));
  return state.error().message;
}

TEST(RendezvousState, ReadsWhatPyTorch214Wrote) {
  const auto state = decode_state(kFromTorch214);
  ASSERT_TRUE(state) << state.error().message;
  EXPECT_EQ(*state, morning_state());

  std::string from_26 = kFromTorch214;
  from_26[1] = 4;
  EXPECT_EQ(decode_state(from_26), morning_state());
}

TEST(RendezvousState, SaysThatPyTorch113IsTooOld) {
  EXPECT_THAT(complaint(kFromTorch113), AllOf(HasSubstr("a PyTorch that is too old"),
                                              HasSubstr("'fqdn'"), HasSubstr("2.4 or newer")));
}

TEST(RendezvousState, SaysThatPyTorch22IsTooOld) {
  Attributes attributes;
  attributes.erase("redundancy_list");
  EXPECT_THAT(complaint(pickle(attributes)),
              AllOf(HasSubstr("a PyTorch that is too old"), HasSubstr("'redundancy_list'"),
                    HasSubstr("2.4 or newer")));
}

TEST(RendezvousState, ReadsWhatItWrites) {
  for (const int nodes : {0, 1, 2, 10, 300, 2500}) {
    State state = rich_state(nodes);
    for (const Dialect dialect : {Dialect::NaiveTimes, Dialect::AwareTimes}) {
      state.dialect = dialect;
      const std::string bytes = encode_state(state);
      const auto read = decode_state(bytes);
      ASSERT_TRUE(read) << read.error().message;
      EXPECT_EQ(*read, state);
      EXPECT_EQ(encode_state(*read), bytes);
    }
  }
  EXPECT_EQ(decode_state(encode_state(State{})), State{});
  EXPECT_EQ(decode_state(encode_state(morning_state())), morning_state());
}

TEST(RendezvousState, WritesLessThanPyTorch) {
  EXPECT_LT(encode_state(morning_state()).size(), kFromTorch214.size());
}

TEST(RendezvousState, KeepsNoClaimOfANodeInNoList) {
  State state = morning_state();
  state.claims = {{{"node-a.example", 1001, 0}, Claim{"a", 1, {}}},
                  {{"node-x.example", 1, 0}, Claim{"x", 2, {}}}};
  state.last_heartbeats[{"node-x.example", 1, 0}] = Stamp{kMorning};
  const auto read = decode_state(encode_state(state));
  ASSERT_TRUE(read);
  state.claims.erase({"node-x.example", 1, 0});
  EXPECT_EQ(*read, state);
}

TEST(RendezvousState, WritesTheNearestTimeThatPythonKnows) {
  State state;
  state.deadline = Stamp{INT64_MAX};
  EXPECT_EQ(decode_state(encode_state(state))->deadline, Stamp{253'402'300'799'999'999});
  state.deadline = Stamp{INT64_MIN};
  EXPECT_EQ(decode_state(encode_state(state))->deadline, Stamp{-62'135'596'800 * kSecond});
}

TEST(RendezvousState, TakesAStateWithoutTimesForAware) {
  const auto state = decode_state(pickle({}));
  ASSERT_TRUE(state) << state.error().message;
  EXPECT_EQ(state->dialect, Dialect::AwareTimes);
  Attributes attributes;
  attributes["deadline"] = naive(kNoon);
  EXPECT_EQ(decode_state(pickle(attributes))->dialect, Dialect::NaiveTimes);
  attributes["last_heartbeats"] = dict({node("a"), aware(kNoon)});
  EXPECT_THAT(complaint(pickle(attributes)), HasSubstr("mixes times"));
}

TEST(RendezvousState, LetsTheLastOfEqualKeysWin) {
  Attributes attributes;
  attributes["participants"] =
      dict({node("a", text("regroup") + text("-:-:first")), integer(1), node("b"), integer(2),
            node("a", text("regroup") + text("-:-:second")), integer(3)});
  const auto state = decode_state(pickle(attributes, text("round") + integer(9)));
  ASSERT_TRUE(state) << state.error().message;
  EXPECT_EQ(state->round, 9);
  EXPECT_EQ(state->participants.at({"a", 1, 0}), 3);
  EXPECT_EQ(state->participants.size(), 2u);
  EXPECT_EQ(state->claims.at({"a", 1, 0}).name, "first");  // Python keeps the first of equal keys.
}

TEST(RendezvousState, TakesAClaimFromTheKeyThatPythonKeeps) {
  Attributes attributes;
  const std::string claim = text("regroup") + text("-:-:a");
  attributes["participants"] = dict({node("a"), integer(1), node("a", claim), integer(2)});
  EXPECT_TRUE(decode_state(pickle(attributes))->claims.empty());
}

TEST(RendezvousState, ReadsContainersInSeveralBatches) {
  Attributes attributes;
  attributes["participants"] = "}(" + node("a") + integer(0) + node("b") + integer(1) + "u(" +
                               node("c") + integer(2) + node("d") + integer(3) + "u" + node("e") +
                               integer(4) + "s";
  attributes["wait_list"] = "\x8f(" + node("f") + "\x90(" + node("g") + "\x90";
  const auto state = decode_state(pickle(attributes));
  ASSERT_TRUE(state) << state.error().message;
  EXPECT_EQ(state->participants, (std::map<NodeId, std::int64_t>{{{"a", 1, 0}, 0},
                                                                 {{"b", 1, 0}, 1},
                                                                 {{"c", 1, 0}, 2},
                                                                 {{"d", 1, 0}, 3},
                                                                 {{"e", 1, 0}, 4}}));
  EXPECT_EQ(state->wait_list, (std::set<NodeId>{{"f", 1, 0}, {"g", 1, 0}}));
}

TEST(RendezvousState, UsesAddrWhereANodeHasFqdnToo) {
  Attributes attributes;
  attributes["wait_list"] = set({node("new", text("fqdn") + text("old"))});
  EXPECT_TRUE(decode_state(pickle(attributes))->wait_list.contains({"new", 1, 0}));
}

TEST(RendezvousState, IgnoresWhatItDoesNotUnderstandOfRegroup) {
  Attributes attributes;
  for (const std::string& strange : {text("v2"), integer(3), none(), dict({})}) {
    attributes["regroup"] = strange;
    attributes["wait_list"] = set({node("a", text("regroup") + strange)});
    const auto state = decode_state(pickle(attributes));
    ASSERT_TRUE(state) << state.error().message;
    EXPECT_TRUE(state->claims.empty() && !state->seal && state->extra.empty());
  }
}

TEST(RendezvousState, KeepsUnknownAttributes) {
  Attributes attributes;
  const std::string shared = text("shared") + "\x94";
  attributes["x"] =
      dict({shared, set({integer(2), integer(1), integer(2)}), text("k"), "h" + byte(0)});
  const auto state = decode_state(pickle(attributes));
  ASSERT_TRUE(state) << state.error().message;
  // Without references, and the set in order.
  EXPECT_EQ(state->extra.at("x"),
            dict({text("shared"), set({integer(1), integer(2)}), text("k"), text("shared")}));
  EXPECT_EQ(decode_state(encode_state(*state)), *state);
}

TEST(RendezvousState, NamesTheAttributeThatItCannotKeep) {
  Attributes attributes;
  const auto refused = [&](const std::string& value) {
    attributes["speed"] = value;
    return complaint(pickle(attributes));
  };
  EXPECT_THAT(refused("G" + std::string(8, '\0')), AllOf(HasSubstr("0x47"), HasSubstr("'speed'")));
  EXPECT_THAT(refused(dict({dict({}), none()})),
              HasSubstr("'speed' has a key that cannot be hashed"));
  EXPECT_THAT(refused(set({"](" + integer(1) + "e\x85"})), HasSubstr("cannot be hashed"));
  EXPECT_THAT(refused("]\x94h" + byte(0) + "a"),
              HasSubstr("'speed' is nested too deeply, or in itself"));
  EXPECT_THAT(refused(class_of("datetime", "datetime")), HasSubstr("'speed' is or holds a class"));
  EXPECT_THAT(refused(unbuilt_node()), HasSubstr("'speed' has a node without attributes"));
  EXPECT_THAT(refused(text(std::string(kExtraBytes, 'x'))), HasSubstr("'speed' is too large"));
  std::string bomb = text(std::string(200, 'x')) + "\x94";
  for (int i = 0; i < 12; ++i) bomb += "h" + byte(i) + "h" + byte(i) + "\x87\x94";
  EXPECT_THAT(refused(bomb), HasSubstr("'speed' is too large"));
}

TEST(RendezvousState, NamesWhatIsWrongWithAnAttribute) {
  const auto refused = [](const std::string& name, const std::string& value) {
    Attributes attributes;
    attributes[name] = value;
    return complaint(pickle(attributes));
  };
  for (const char* name : {"round", "complete", "deadline", "closed", "participants", "wait_list",
                           "last_heartbeats"}) {
    Attributes attributes;
    attributes.erase(name);
    EXPECT_THAT(complaint(pickle(attributes)), HasSubstr("'" + std::string(name) + "' is missing"));
  }
  EXPECT_THAT(refused("round", "\x88"), HasSubstr("'round' is a bool and not an int (at byte"));
  EXPECT_THAT(refused("round", integer(-1)), HasSubstr("'round' is negative"));
  EXPECT_THAT(refused("complete", integer(1)), HasSubstr("'complete' is an int and not a bool"));
  EXPECT_THAT(refused("closed", none()), HasSubstr("'closed' is None and not a bool"));
  EXPECT_THAT(refused("deadline", text("noon")), HasSubstr("'deadline' is a text"));
  EXPECT_THAT(refused("participants", set({})), HasSubstr("'participants' is a set"));
  EXPECT_THAT(refused("participants", dict({node("a"), "\x88"})),
              HasSubstr("rank of 'a' is a bool"));
  EXPECT_THAT(refused("participants", dict({node("a"), integer(-1)})),
              HasSubstr("rank of 'a' is -1"));
  EXPECT_THAT(refused("participants", dict({text("a"), integer(1)})),
              HasSubstr("'participants' holds a text"));
  EXPECT_THAT(refused("wait_list", set({unbuilt_node()})), HasSubstr("a node without attributes"));
  EXPECT_THAT(refused("wait_list", dict({})), HasSubstr("'wait_list' is a dict"));
  EXPECT_THAT(refused("last_heartbeats", dict({node("a"), none()})),
              HasSubstr("time of 'a' is None"));
  EXPECT_THAT(refused("wait_list", set({node(std::string(kAddressBytes + 1, 'x'))})),
              HasSubstr("a node's address of 1025 bytes"));
}

TEST(RendezvousState, RefusesTimesThatAreNone) {
  for (const char* bad : {"00000101000000000000", "27100101000000000000", "07e80001000000000000",
                          "07e80d01000000000000", "07e8021e000000000000", "07e7021d000000000000",
                          "07e80100000000000000", "07e80101180000000000", "07e80101003c00000000",
                          "07e8010100003c000000", "07e801010000000f4240", "07e88101000000000000",
                          "07e801010000000000", "07e8010100000000000000"}) {
    Attributes attributes;
    attributes["deadline"] = naive(unhex(bad));
    EXPECT_THAT(complaint(pickle(attributes)), HasSubstr("is no moment")) << bad;
  }
  for (const char* good :
       {"00010101000000000000", "270f0c1f173b3b0f423f", "07e8021d000000000000"}) {
    Attributes attributes;
    attributes["deadline"] = naive(unhex(good));
    const auto state = decode_state(pickle(attributes));
    ASSERT_TRUE(state) << state.error().message;
    EXPECT_THAT(encode_state(*state), HasSubstr(unhex(good)));
  }
}

TEST(RendezvousState, RefusesEveryTimezoneButUtc) {
  Attributes attributes;
  attributes["deadline"] = aware(kNoon, 1);
  EXPECT_THAT(complaint(pickle(attributes)),
              AllOf(HasSubstr("a timedelta is not 0"), HasSubstr("'deadline'")));
}

}  // namespace
}  // namespace regroup::wire
