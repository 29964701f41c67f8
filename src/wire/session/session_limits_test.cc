// Frames that are refused, or cut to fit: each because of a limit or of a value that cannot be.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "wire/bytes/limits.h"
#include "wire/session/session.h"
#include "wire/session/session_frames_testing.h"

namespace regroup::wire {
namespace {

using namespace session_testing;
using testing::AllOf;
using testing::HasSubstr;

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

// A coordinator shows its nodes to those without a session, in a pickle that holds no such text. It
// once ended itself when it was asked for the state with such a node in it.
TEST(Session, RefusesANodeThatTheSharedStateCannotHold) {
  const auto why = [](auto change) {
    coordinator::Hello hello = full_hello();
    change(hello);
    return why_not_from_agent(from_agent(hello));
  };
  using Hello = coordinator::Hello;
  EXPECT_EQ(why([](Hello& h) { h.node.address = "\xff"; }),
            "a hello frame: the node's address is no UTF-8");
  EXPECT_EQ(why([](Hello& h) { h.claim.name = "n\x80"; }),
            "a hello frame: the node's name is no UTF-8");
  EXPECT_EQ(why([](Hello& h) { h.node.address = std::string(kAddressBytes, 'a'); }),
            "(not malformed)");
  EXPECT_EQ(why([](Hello& h) { h.claim.name = std::string(kNodeNameBytes, 'n'); }),
            "(not malformed)");
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
