#include "wire/session/session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "wire/bytes/limits.h"

namespace regroup::wire {
namespace {

namespace coordinator = core::coordinator;
using coordinator::FromAgent;
using coordinator::FromCoordinator;
using testing::AllOf;
using testing::HasSubstr;

constexpr std::size_t kHead = 5;  // Length and kind.

template <class Message>
std::string frame(const Message& message) {
  ByteBuffer out;
  append_frame(out, message);
  return std::string(out.view());
}
std::string from_agent(FromAgent message) { return frame(message); }
std::string from_coordinator(FromCoordinator message) { return frame(message); }

template <class T>
std::string raw(T value) {
  std::string bytes(sizeof value, '\0');
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}

// A frame of our own making: the length is right, the rest is up to the test.
std::string hand_made(std::uint8_t kind, std::string_view fields) {
  return raw(static_cast<std::uint32_t>(1 + fields.size())) + raw(kind) + std::string(fields);
}
// The front of a frame that is announced to have `size` bytes in all.
std::string head(std::size_t size, std::uint8_t kind) {
  return raw(static_cast<std::uint32_t>(size - 4)) + raw(kind);
}

// A frame with `more` behind its last field.
std::string extended(std::string bytes, std::string_view more) {
  bytes += more;
  const std::string length = raw(static_cast<std::uint32_t>(bytes.size() - 4));
  return bytes.replace(0, length.size(), length);
}

auto parse(const FromAgent& /*of*/, std::string_view bytes) {
  return parse_frame_from_agent(bytes);
}
auto parse(const FromCoordinator& /*of*/, std::string_view bytes) {
  return parse_frame_from_coordinator(bytes);
}

std::string why_not_from_agent(std::string_view bytes) {
  const auto parsed = parse_frame_from_agent(bytes);
  const auto* wrong = std::get_if<Malformed>(&parsed);
  return wrong != nullptr ? wrong->reason : "(not malformed)";
}
std::string why_not_from_coordinator(std::string_view bytes) {
  const auto parsed = parse_frame_from_coordinator(bytes);
  const auto* wrong = std::get_if<Malformed>(&parsed);
  return wrong != nullptr ? wrong->reason : "(not malformed)";
}

constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();

coordinator::Hello full_hello() {
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

const coordinator::Failure kFailure{
    .rank = 17, .node = "gpu-02", .exit_code = -9, .text = "rank 17 on gpu-02: SIGKILL (größe)"};

// 32 bytes, all different; beyond 255 they begin at 0.
coordinator::Bytes32 counted_from(std::uint8_t first) {
  coordinator::Bytes32 bytes;
  for (std::uint8_t& byte : bytes) byte = first++;
  return bytes;
}

// Everything set, and to values that no other field has.
std::vector<FromAgent> full_from_agent() {
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
std::vector<FromCoordinator> full_from_coordinator() {
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
std::vector<Variant> defaults(std::index_sequence<I...> /*alternatives*/) {
  return {Variant(std::in_place_index<I>)...};
}
std::vector<FromAgent> default_from_agent() {
  return defaults<FromAgent>(std::make_index_sequence<std::variant_size_v<FromAgent>>{});
}
std::vector<FromCoordinator> default_from_coordinator() {
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

TEST(Session, EveryMessageComesBackAsItWas) {
  // One of each: a kind that is added is added here, too.
  EXPECT_EQ(full_from_agent().size(), std::variant_size_v<FromAgent>);
  EXPECT_EQ(full_from_coordinator().size(), std::variant_size_v<FromCoordinator>);
  for_each_message([](const auto& message) {
    const std::string bytes = frame(message);
    expect_whole(parse(message, bytes), message, bytes.size());
  });
}

TEST(Session, TakesOneFrameOfManyThatAreThere) {
  for_each_message([](const auto& message) {
    const std::string bytes = frame(message);
    expect_whole(parse(message, bytes + bytes), message, bytes.size());
  });
}

TEST(Session, HasTheBytesOfTheProtocol) {
  using namespace std::string_literals;
  EXPECT_EQ(from_agent(coordinator::Ping{.number = 0x0807060504030201}),
            "\x09\0\0\0\x06\x01\x02\x03\x04\x05\x06\x07\x08"s);
  EXPECT_EQ(
      from_agent(coordinator::Join{.number = 3, .bootstrap = {.address = "h", .port = 29500}}),
      "\x10\0\0\0\x02\x03\0\0\0\0\0\0\0\x01\0\0\0h\x3c\x73"s);
  EXPECT_EQ(from_agent(coordinator::Leave{.why = "end", .close = true}),
            "\x09\0\0\0\x05\x03\0\0\0end\x01"s);
  EXPECT_EQ(from_agent(coordinator::Prove{counted_from('A')}),
            "\x21\0\0\0\x09"
            "ABCDEFGHIJKLMNOPQRSTUVWXYZ[\\]^_`"s);
  EXPECT_EQ(from_coordinator(coordinator::Over{}), "\x01\0\0\0\x45"s);
  EXPECT_EQ(from_coordinator(coordinator::Progress{.text = "a", .brief = "", .last_call = 2ns}),
            "\x14\0\0\0\x42\x01\0\0\0a\0\0\0\0\x01\x02\0\0\0\0\0\0\0\0"s);
  // The version stands first, and is no field of the message.
  EXPECT_THAT(from_agent(full_hello()), HasSubstr("\x01\x02\0\0\0\x05\0\0\0job-7"s));
}

// The sizes of docs/protocol.md: without texts, and without what is optional.
TEST(Session, HasTheSizesOfTheProtocol) {
  std::vector<std::size_t> sizes;
  for (const auto& message : default_from_agent()) sizes.push_back(frame(message).size());
  EXPECT_THAT(sizes, testing::ElementsAre(159, 19, 37, 13, 10, 13, 9, 13, 37, 37, 14, 17));
  sizes.clear();
  for (const auto& message : default_from_coordinator()) sizes.push_back(frame(message).size());
  EXPECT_THAT(sizes, testing::ElementsAre(100, 15, 76, 51, 5, 10, 13, 9, 17, 37, 37, 14, 18));
}

TEST(Session, ASealedFrameIsAsLongForTenThousandNodesAsForTwo) {
  const auto size = [](std::int64_t nodes) {
    return from_coordinator(coordinator::Sealed{.round = 3,
                                                .rank = nodes - 1,
                                                .world_size = nodes,
                                                .ranks = {.base_global_rank = 8 * (nodes - 1),
                                                          .global_world_size = 8 * nodes,
                                                          .base_role_rank = 8 * (nodes - 1),
                                                          .role_world_size = 8 * nodes},
                                                .bootstrap = {.address = "10.0.0.1", .port = 1}})
        .size();
  };
  EXPECT_EQ(size(2), size(10'000));
}

TEST(Session, WaitsForTheRestOfACutFrame) {
  for_each_message([](const auto& message) {
    const std::string bytes = frame(message);
    for (std::size_t cut = 0; cut < bytes.size(); ++cut) {
      SCOPED_TRACE(cut);
      const auto parsed = parse(message, bytes.substr(0, cut));
      const auto* more = std::get_if<NeedMore>(&parsed);
      ASSERT_NE(more, nullptr);
      EXPECT_EQ(more->at_least, cut < 4 ? 4 : bytes.size());
    }
  });
}

// Where the frame would end if an older peer had written it.
std::size_t end_in_version_1(const FromAgent& message) {
  const auto* hello = std::get_if<coordinator::Hello>(&message);
  if (hello == nullptr) return 0;
  return frame(message).size() - sizeof hello->rules.segment - sizeof(std::uint32_t) -
         hello->claim.group.size();
}
std::size_t end_in_version_1(const FromCoordinator& message) {
  const auto* welcome = std::get_if<coordinator::Welcome>(&message);
  return welcome == nullptr ? 0 : frame(message).size() - sizeof welcome->rules.segment;
}

TEST(Session, AnOlderPeerSaysNothingOfWhatItDoesNotKnow) {
  coordinator::Hello hello = full_hello();
  std::string bytes = from_agent(hello).substr(0, end_in_version_1(FromAgent(hello)));
  hello.claim.group.clear();
  hello.rules.segment = 0;
  expect_whole(parse_frame_from_agent(extended(bytes, "")), FromAgent(hello), bytes.size());

  coordinator::Welcome welcome{.member = true, .rules = {.min_nodes = 3, .segment = 3}};
  bytes = from_coordinator(welcome);
  bytes.resize(end_in_version_1(FromCoordinator(welcome)));
  welcome.rules.segment = 0;
  expect_whole(parse_frame_from_coordinator(extended(bytes, "")), FromCoordinator(welcome),
               bytes.size());
}

TEST(Session, AFrameThatEndsInsideAFieldIsMalformed) {
  for_each_message([](const auto& message) {
    const std::string bytes = frame(message);
    for (std::size_t end = kHead; end < bytes.size(); ++end) {
      SCOPED_TRACE(end);
      if (end == end_in_version_1(message)) continue;
      const auto parsed = parse(message, extended(bytes.substr(0, end), ""));
      const auto* wrong = std::get_if<Malformed>(&parsed);
      ASSERT_NE(wrong, nullptr);
      EXPECT_THAT(wrong->reason, HasSubstr("frame: ends inside the "));
    }
  });
  EXPECT_EQ(why_not_from_agent(hand_made(4, raw(std::uint32_t{1}))),
            "a done frame: ends inside the round");
  EXPECT_EQ(why_not_from_agent(hand_made(7, raw(std::uint32_t{2}) + "j")),
            "a look frame: ends inside the run id");
}

TEST(Session, IgnoresWhatANewerPeerHasAdded) {
  for_each_message([](const auto& message) {
    const std::string bytes = extended(frame(message), "more");
    expect_whole(parse(message, bytes), message, bytes.size());
  });
}

TEST(Session, AcceptsANewerVersionAndRefusesNone) {
  const FromAgent message = full_hello();
  std::string bytes = frame(message);
  bytes.replace(kHead, 4, raw(std::uint32_t{3}));
  expect_whole(parse_frame_from_agent(bytes), message, bytes.size());
  bytes.replace(kHead, 4, raw(std::uint32_t{0}));
  EXPECT_EQ(why_not_from_agent(bytes), "a hello frame: version 0, which does not exist");
}

TEST(Session, SkipsKindsThatItDoesNotKnow) {
  for (const int kind : {0, 13, 64, 65, 77, 255}) {
    SCOPED_TRACE(kind);
    const auto parsed =
        parse_frame_from_agent(hand_made(static_cast<std::uint8_t>(kind), "news") + "x");
    const auto* skipped = std::get_if<SkippedFrame>(&parsed);
    ASSERT_NE(skipped, nullptr);
    EXPECT_EQ(skipped->size, kHead + 4);
  }
  for (const int kind : {0, 1, 12, 64, 78, 255}) {
    SCOPED_TRACE(kind);
    const auto parsed =
        parse_frame_from_coordinator(hand_made(static_cast<std::uint8_t>(kind), ""));
    const auto* skipped = std::get_if<SkippedFrame>(&parsed);
    ASSERT_NE(skipped, nullptr);
    EXPECT_EQ(skipped->size, kHead);
  }
}

TEST(Session, AFrameHasAKind) {
  EXPECT_EQ(why_not_from_agent(raw(std::uint32_t{0})), "a frame without a kind");
  EXPECT_EQ(why_not_from_coordinator(raw(std::uint32_t{0})), "a frame without a kind");
}

TEST(Session, RefusesALongFrameBeforeItIsThere) {
  const auto waits_for = [](const auto& parsed) {
    const auto* more = std::get_if<NeedMore>(&parsed);
    return more != nullptr ? more->at_least : 0;
  };
  EXPECT_EQ(waits_for(parse_frame_from_agent(head(kLargestFrame, 1))), kLargestFrame);
  EXPECT_EQ(waits_for(parse_frame_from_coordinator(head(kLargestFrame, 65))), kLargestFrame);
  EXPECT_EQ(why_not_from_coordinator(head(kLargestFrame + 1, 65)),
            "a frame of 65537 bytes; the limit is 65536");
  // An unknown kind has no more room than the others.
  EXPECT_THAT(why_not_from_coordinator(head(kLargestFrame + 1, 99)), HasSubstr("65536"));

  // Only a report may be longer, so its kind is waited for first.
  const std::string report = head(kLargestReport, 72);
  EXPECT_EQ(waits_for(parse_frame_from_coordinator(report.substr(0, 4))), kHead);
  EXPECT_EQ(waits_for(parse_frame_from_coordinator(report)), kLargestReport);
  EXPECT_THAT(why_not_from_coordinator(head(kLargestReport + 1, 72).substr(0, 4)),
              HasSubstr("the limit is " + std::to_string(kLargestReport)));
  EXPECT_THAT(why_not_from_coordinator("\xff\xff\xff\xff"), HasSubstr("4294967299 bytes"));

  // An agent sends no reports, so no kind of it is waited for.
  EXPECT_THAT(why_not_from_agent(head(kLargestFrame + 1, 72).substr(0, 4)), HasSubstr("65536"));
}

TEST(Session, ALargeReportComesThroughAndAHugeOneIsCut) {
  const FromCoordinator large = coordinator::Report{.json = std::string(3 * kLargestFrame, 'x')};
  const std::string bytes = frame(large);
  expect_whole(parse_frame_from_coordinator(bytes), large, bytes.size());

  const std::string cut =
      from_coordinator(coordinator::Report{.json = std::string(kLargestReport, 'x')});
  EXPECT_EQ(cut.size(), kLargestReport);
  EXPECT_TRUE(
      std::holds_alternative<WholeFrame<FromCoordinator>>(parse_frame_from_coordinator(cut)));
}

// What `text` has become at the other end.
std::string sent(std::string text) {
  const auto parsed =
      parse_frame_from_agent(from_agent(coordinator::Leave{.why = std::move(text)}));
  const auto* whole = std::get_if<WholeFrame<FromAgent>>(&parsed);
  return whole != nullptr ? std::get<coordinator::Leave>(whole->message).why : "(not parsed)";
}

TEST(Session, CutsLongTextsBetweenCharacters) {
  const std::string ascii(kSessionTextBytes, 'x');
  EXPECT_EQ(sent(ascii), ascii);
  EXPECT_EQ(sent(ascii + "y"), ascii);
  for (const std::string character : {"ü", "€", "🙂"})
    for (std::size_t before = 1; before <= character.size(); ++before) {
      SCOPED_TRACE(character + " after all but " + std::to_string(before));
      const std::string front = ascii.substr(before);
      const bool fits = before == character.size();
      EXPECT_EQ(sent(front + character), fits ? front + character : front);
      EXPECT_EQ(sent(front + character + "tail"), fits ? front + character : front);
    }
  // Not UTF-8: cut all the same.
  EXPECT_EQ(sent(std::string(2 * kSessionTextBytes, '\x80')),
            std::string(kSessionTextBytes, '\x80'));
}

TEST(Session, NoTextMakesAFrameTooLong) {
  const std::string text(10 * kLargestFrame, 'x');
  const coordinator::Failure failure{.node = text, .text = text};
  coordinator::Hello hello = full_hello();
  hello.run_id = hello.node.address = hello.claim.name = hello.role = hello.claim.group = text;
  const auto arrives = [](const auto& message) {
    const auto parsed = parse(message, frame(message));
    return frame(message).size() <= kLargestFrame && parsed.index() == 0;
  };
  EXPECT_TRUE(arrives(FromAgent(hello)));
  EXPECT_TRUE(arrives(FromAgent(coordinator::Join{.number = 1, .bootstrap = {.address = text}})));
  EXPECT_TRUE(arrives(FromAgent(coordinator::Failed{.failure = failure})));
  EXPECT_TRUE(arrives(FromAgent(coordinator::Look{.run_id = text})));
  EXPECT_TRUE(arrives(FromCoordinator(coordinator::Progress{.text = text, .brief = text})));
  EXPECT_TRUE(
      arrives(FromCoordinator(coordinator::Sealed{.ranks = {}, .bootstrap = {.address = text}})));
  EXPECT_TRUE(arrives(FromCoordinator(
      coordinator::Stop{.text = text, .verdict = failure, .culprit = {.address = text}})));
  EXPECT_TRUE(arrives(FromCoordinator(coordinator::Refused{.why = text})));
}

TEST(Session, RefusesATextBeyondItsLimit) {
  const std::string text(kSessionTextBytes + 1, 'x');
  EXPECT_EQ(why_not_from_agent(hand_made(7, raw(static_cast<std::uint32_t>(text.size())) + text)),
            "a look frame: the run id has 4097 bytes; the limit is 4096");
}

TEST(Session, RefusesNumbersThatCannotBe) {
  const auto why = [](auto change) {
    coordinator::Hello hello = full_hello();
    change(hello);
    return why_not_from_agent(from_agent(hello));
  };
  using Hello = coordinator::Hello;
  EXPECT_EQ(why([](Hello&) {}), "(not malformed)");
  EXPECT_EQ(why([](Hello& h) { h.workers = 0; }),
            "a hello frame: the number of workers is 0; it must be 1 to 2147483648");
  EXPECT_THAT(why([](Hello& h) { h.workers = kMost; }), HasSubstr("the number of workers"));
  EXPECT_THAT(why([](Hello& h) { h.rules.min_nodes = 0; }), HasSubstr("the minimum of nodes is 0"));
  EXPECT_THAT(why([](Hello& h) { h.rules.max_nodes = -1; }), HasSubstr("the maximum of nodes"));
  EXPECT_EQ(why([](Hello& h) { h.rules.last_call = -1ns; }),
            "a hello frame: the last call is -1 ns, below zero");
  EXPECT_THAT(why([](Hello& h) { h.rules.heartbeat_limit = -1s; }),
              HasSubstr("the heartbeat limit"));
  EXPECT_THAT(why([](Hello& h) { h.rules.reconnect_grace = -1s; }),
              HasSubstr("the reconnect grace"));
  EXPECT_THAT(why([](Hello& h) { h.rules.segment = -1; }), HasSubstr("the segment is -1"));
  EXPECT_THAT(why([](Hello& h) { h.claim.wish = -1; }), HasSubstr("the wish is -1"));
  EXPECT_THAT(why([](Hello& h) { h.claim.held->round = -1; }), HasSubstr("the held round is -1"));
  // One more must not overflow.
  EXPECT_THAT(why([](Hello& h) { h.running->place.round = kMost; }), HasSubstr("the held round"));
  EXPECT_THAT(why([](Hello& h) { h.running->restart_count = kMost; }),
              HasSubstr("the restart count"));
  // The first thing that is wrong is named, and no other.
  EXPECT_THAT(why([](Hello& h) { h.workers = h.rules.min_nodes = 0; }),
              AllOf(HasSubstr("workers"), testing::Not(HasSubstr("nodes"))));

  EXPECT_THAT(why_not_from_coordinator(
                  from_coordinator(coordinator::Welcome{.rules = {.heartbeat_limit = -1s}})),
              HasSubstr("a welcome frame: the heartbeat limit"));
  EXPECT_THAT(why_not_from_coordinator(from_coordinator(
                  coordinator::Progress{.text = "", .brief = "", .last_call = -1s})),
              HasSubstr("a progress frame: the last call"));
}

TEST(Session, RefusesMarksAndChoicesThatDoNotExist) {
  EXPECT_EQ(why_not_from_agent(hand_made(5, raw(std::uint32_t{0}) + "\x02")),
            "a leave frame: the mark of closing is 2; it must be 0 to 1");
  const std::string texts = raw(std::uint32_t{0}) + raw(std::uint32_t{0});
  EXPECT_EQ(why_not_from_coordinator(hand_made(66, texts + "\x02")),
            "a progress frame: the last call is 2; it must be 0 to 1");
  const auto stop = [](int why) {
    return from_coordinator(
        coordinator::Stop{.why = static_cast<coordinator::Stop::Why>(why), .text = ""});
  };
  for (int why = 0; why <= 3; ++why)
    EXPECT_EQ(why_not_from_coordinator(stop(why)), "(not malformed)");
  EXPECT_EQ(why_not_from_coordinator(stop(4)),
            "a stop frame: the kind of stop is 4; it must be 0 to 3");
}

}  // namespace
}  // namespace regroup::wire
