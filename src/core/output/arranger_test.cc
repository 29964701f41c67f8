#include "core/output/arranger.h"

#include <gtest/gtest.h>

#include <string>

namespace regroup::core::output {
namespace {

constexpr Source kZero{.number = 0, .prefixed = true, .prefix = "[0]:"};
constexpr Source kOne{.number = 1, .prefixed = true, .prefix = "[1]:"};
constexpr Source kPlain{.number = 2};
constexpr Source kOther{.number = 3};

struct Shown {
  explicit Shown(bool terminal) : arranger(terminal) {}
  Shown& add(const Source& source, std::string_view text) {
    arranger.add(source, text, out);
    return *this;
  }
  Arranger arranger;
  std::string out;
};
Shown pipe() { return Shown(false); }
Shown terminal() { return Shown(true); }

TEST(LastSegment, IsWhatIsSeenInTheEnd) {
  EXPECT_EQ(last_segment("plain\n"), "plain\n");
  EXPECT_EQ(last_segment("10%\r20%\r30%\n"), "30%\n");
  EXPECT_EQ(last_segment("\r100%\n"), "100%\n");
  EXPECT_EQ(last_segment("dos\r\n"), "dos\r\n");
  EXPECT_EQ(last_segment("10%\r20%\r\r\n"), "20%\r\r\n");
  EXPECT_EQ(last_segment("10%\r20%\r"), "20%\r");
  EXPECT_EQ(last_segment("\r\n"), "\r\n");
  EXPECT_EQ(last_segment("\n"), "\n");
  EXPECT_EQ(last_segment(""), "");
}

TEST(AppendLines, TakesThoseThatContainAFilter) {
  std::string out;
  append_lines("p ", "apple\npear\nan orange\napp\rlast\n", {"apple", "orange", "zzz"}, out);
  EXPECT_EQ(out, "p apple\np an orange\n");
  append_lines("", "any\n\n", {""}, out);
  EXPECT_EQ(out, "p apple\np an orange\nany\n\n");
}

TEST(Arranger, PutsThePrefixBeforeEveryLine) {
  EXPECT_EQ(pipe().add(kZero, "a\n\nb\n").add(kOne, "c\n").out, "[0]:a\n[0]:\n[0]:b\n[1]:c\n");
  EXPECT_EQ(terminal().add(kZero, "a\n\nb\n").add(kOne, "c\r\n").out,
            "[0]:a\n[0]:\n[0]:b\n[1]:c\r\n");
}

TEST(Arranger, LeavesPlainSourcesAlone) {
  EXPECT_EQ(pipe().add(kPlain, "a\r10%\r20%\nb").add(kPlain, "c\n").out, "a\r10%\r20%\nbc\n");
}

TEST(Arranger, WritesTheLastStateOfABarIntoAPipe) {
  EXPECT_EQ(pipe().add(kZero, "\r10%\r20%\nx\r\n").out, "[0]:20%\n[0]:x\r\n");
}

TEST(Arranger, EndsAnUnfinishedLineBeforeSomebodyElseWrites) {
  EXPECT_EQ(pipe().add(kPlain, "asks? ").add(kZero, "a\n").add(kPlain, "yes\n").out,
            "asks? \n[0]:a\nyes\n");
  EXPECT_EQ(pipe().add(kPlain, "\r10%").add(kZero, "a\n").out, "\r10%\n[0]:a\n");
}

TEST(Arranger, TheNewlineOfALineThatWasEndedForItIsNotWrittenTwice) {
  EXPECT_EQ(pipe().add(kPlain, "part").add(kOther, "x\n").add(kPlain, "\nnext\n").out,
            "part\nx\nnext\n");
  EXPECT_EQ(terminal().add(kZero, "part").add(kOther, "x\n").add(kZero, "\r\n").out,
            "[0]:part\nx\n");
  EXPECT_EQ(terminal().add(kZero, "part").add(kZero, "\n").out, "[0]:part\n");
}

TEST(Arranger, SaysAgainWhoseLineItWasWhenItGoesOn) {
  EXPECT_EQ(terminal().add(kZero, "load").add(kOne, "x\n").add(kZero, "ed\n").out,
            "[0]:load\n[1]:x\n[0]:ed\n");
  EXPECT_EQ(terminal().add(kZero, "load").add(kZero, "ed\n").out, "[0]:loaded\n");
}

TEST(Arranger, TwoUnfinishedLinesTakeTurns) {
  EXPECT_EQ(terminal().add(kZero, "a").add(kOne, "b").add(kZero, "c").add(kOne, "d\n").out,
            "[0]:a\n[1]:b\n[0]:c\n[1]:d\n");
}

TEST(Arranger, ABarKeepsItsPrefix) {
  EXPECT_EQ(terminal().add(kZero, "\r10%").add(kZero, "\r20%").add(kZero, "\n").out,
            "\r[0]:10%\r[0]:20%\n");
  EXPECT_EQ(terminal().add(kZero, "10%\r").add(kZero, "20%\r").add(kZero, "\n").out,
            "[0]:10%\r[0]:20%\r\n");
  EXPECT_EQ(terminal().add(kZero, "1\r2\n\r\n\r3").out, "[0]:1\r[0]:2\n[0]:\r\n\r[0]:3");
}

TEST(Arranger, ABarGivesItsLineToSomebodyElse) {
  EXPECT_EQ(terminal().add(kZero, "\r10%").add(kOne, "x\n").add(kZero, "\r20%").out,
            "\r[0]:10%\r\x1b[K[1]:x\n\r[0]:20%");
  EXPECT_EQ(terminal().add(kPlain, "10%\r").add(kOther, "x\n").add(kPlain, "20%\r").out,
            "10%\r\r\x1b[Kx\n20%\r");
}

TEST(Arranger, ALineThatFollowsABarIsNone) {
  EXPECT_EQ(terminal().add(kPlain, "\r10%\nload").add(kOther, "x\n").out, "\r10%\nload\nx\n");
}

TEST(Arranger, AfterALossNobodysLineIsOpen) {
  Shown shown = terminal();
  shown.add(kZero, "load");
  shown.arranger.lost();
  shown.out.clear();
  EXPECT_EQ(shown.add(kZero, "ed\n").out, "[0]:ed\n");
}

TEST(Arranger, NewSourcesDoNotInheritAnOpenLine) {
  Shown shown = terminal();
  shown.add(kZero, "dying");
  shown.arranger.forget_sources();
  shown.out.clear();
  EXPECT_EQ(shown.add(kZero, "born\n").out, "\n[0]:born\n");
}

TEST(Arranger, NothingIsNothing) { EXPECT_EQ(terminal().add(kZero, "").out, ""); }

TEST(ALiveLine, IsDrawnInPlaceAndWipedOutByWhoeverWritesNext) {
  auto shown = terminal();
  EXPECT_TRUE(shown.arranger.show_live("waiting, 1 s", shown.out));
  EXPECT_TRUE(shown.arranger.show_live("waiting, 2 s", shown.out));
  EXPECT_TRUE(shown.arranger.shows_live());
  shown.add(kZero, "a\n");
  EXPECT_FALSE(shown.arranger.shows_live());
  EXPECT_EQ(shown.out,
            "\rwaiting, 1 s\x1b[K"
            "\rwaiting, 2 s\x1b[K"
            "\r\x1b[K[0]:a\n");
}

TEST(ALiveLine, IsNotDrawnIntoTheLineOfASource) {
  auto shown = terminal();
  shown.add(kPlain, "name: ");
  EXPECT_FALSE(shown.arranger.show_live("waiting", shown.out));
  EXPECT_EQ(shown.out, "name: ");
  shown.add(kPlain, "x\n");
  EXPECT_TRUE(shown.arranger.show_live("waiting", shown.out));
}

TEST(ALiveLine, OfWhatIsNoTerminalThereIsNone) {
  auto shown = pipe();
  EXPECT_FALSE(shown.arranger.show_live("waiting", shown.out));
  shown.arranger.hide_live(shown.out);
  EXPECT_EQ(shown.out, "");
}

TEST(ALiveLine, IsHiddenWithoutATrace) {
  auto shown = terminal();
  shown.arranger.show_live("waiting", shown.out);
  shown.arranger.hide_live(shown.out);
  shown.arranger.hide_live(shown.out);
  shown.add(kPlain, "a\n");
  EXPECT_EQ(shown.out, "\rwaiting\x1b[K\r\x1b[Ka\n");
}

TEST(ALiveLine, SourcesThatAreForgottenDoNotEndIt) {
  auto shown = terminal();
  shown.arranger.show_live("waiting", shown.out);
  shown.arranger.forget_sources();
  shown.add(kPlain, "a\n");
  EXPECT_EQ(shown.out, "\rwaiting\x1b[K\r\x1b[Ka\n");
}

}  // namespace
}  // namespace regroup::core::output
