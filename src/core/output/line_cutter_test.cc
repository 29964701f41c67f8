#include "core/output/line_cutter.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/random.h"
#include "core/output/limits.h"

namespace regroup::core::output {
namespace {

using Texts = std::vector<std::string>;

constexpr CutRules kHold{.last_segment_only = true};
constexpr CutRules kTerminal{.quiet = 50ms, .bar = 0s};
constexpr CutRules kAsIs{.quiet = 100ms, .bar = 1s};

Instant at(Duration since_start) { return {since_start}; }
Texts texts(const Cuts& cuts) { return {cuts.begin(), cuts.end()}; }

TEST(LineCutter, GivesWholeLinesAtOnceAndTogether) {
  LineCutter cutter(kHold);
  EXPECT_EQ(texts(cutter.push("one\ntwo\nthr", at(0s))), Texts{"one\ntwo\n"});
  EXPECT_EQ(texts(cutter.push("ee\n", at(0s))), Texts{"three\n"});
  EXPECT_EQ(texts(cutter.push("fo", at(0s))), Texts{});
  EXPECT_EQ(texts(cutter.push("ur\nfive\nsi", at(0s))), (Texts{"four\n", "five\n"}));
  EXPECT_EQ(texts(cutter.push("", at(0s))), Texts{});
}

TEST(LineCutter, HoldsAnUnfinishedLineUntilItsEnd) {
  LineCutter cutter(kHold);
  cutter.push("half", at(0s));
  EXPECT_FALSE(cutter.next_deadline());
  EXPECT_TRUE(cutter.expire(at(3600s)).empty());
  EXPECT_EQ(texts(cutter.finish()), Texts{"half\n"});
  EXPECT_TRUE(cutter.finish().empty());
}

TEST(LineCutter, AtTheEndNothingIsAddedToWholeLines) {
  LineCutter cutter(kTerminal);
  EXPECT_TRUE(cutter.finish().empty());
  cutter.push("whole\n", at(0s));
  EXPECT_TRUE(cutter.finish().empty());
}

TEST(LineCutter, ShowsAQuestionOnceNobodyGoesOn) {
  LineCutter cutter(kAsIs);
  EXPECT_TRUE(cutter.push("(Pd", at(0ms)).empty());
  EXPECT_TRUE(cutter.push("b) ", at(90ms)).empty());
  EXPECT_EQ(cutter.next_deadline(), at(190ms));
  EXPECT_TRUE(cutter.expire(at(189ms)).empty());
  EXPECT_EQ(texts(cutter.expire(at(190ms))), Texts{"(Pdb) "});
  EXPECT_FALSE(cutter.next_deadline());
  EXPECT_TRUE(cutter.expire(at(500ms)).empty());
  EXPECT_EQ(texts(cutter.push("c\nnext\n", at(600ms))), Texts{"c\nnext\n"});
  EXPECT_TRUE(cutter.finish().empty());
}

TEST(LineCutter, EndsALineThatWasShownInPart) {
  LineCutter cutter(kAsIs);
  cutter.push("(Pdb) ", at(0s));
  EXPECT_FALSE(cutter.expire(at(1s)).empty());
  EXPECT_EQ(texts(cutter.finish()), Texts{"\n"});
}

TEST(LineCutter, ShowsBarsOnATerminalAsTheyMove) {
  LineCutter cutter(kTerminal);
  EXPECT_EQ(texts(cutter.push("\r10%", at(0s))), Texts{"\r10%"});
  EXPECT_EQ(texts(cutter.push("20%\r", at(0s))), Texts{"20%\r"});
  EXPECT_TRUE(cutter.push("30", at(0s)).empty());
  EXPECT_EQ(texts(cutter.push("%\r", at(0s))), Texts{"30%\r"});
  EXPECT_EQ(texts(cutter.push("a\nb\r", at(0s))), (Texts{"a\n", "b\r"}));
  EXPECT_EQ(texts(cutter.finish()), Texts{"\n"});
}

TEST(LineCutter, ABarThatNeverRestsIsShownAfterAWhile) {
  LineCutter cutter(kAsIs);
  Instant now = at(0s);
  while (now < at(1s)) {
    EXPECT_TRUE(cutter.push("\r9%", now).empty());
    EXPECT_TRUE(cutter.expire(now).empty());
    now = now + 50ms;
  }
  EXPECT_EQ(cutter.next_deadline(), at(1s));
  EXPECT_EQ(texts(cutter.expire(at(1s)))[0].substr(0, 8), "\r9%\r9%\r9");
}

TEST(LineCutter, HoldsOnlyTheLastStateOfABar) {
  LineCutter cutter(kHold);
  for (int i = 0; i < 1000; ++i) EXPECT_TRUE(cutter.push("\r10%|####", at(0s)).empty());
  EXPECT_EQ(texts(cutter.finish()), Texts{"10%|####\n"});
  for (int i = 0; i < 1000; ++i) EXPECT_TRUE(cutter.push("20%\r", at(0s)).empty());
  EXPECT_EQ(texts(cutter.push("\n", at(0s))), Texts{"20%\r\n"});
  cutter.push("30%\r", at(0s));
  cutter.push("40", at(0s));
  EXPECT_EQ(texts(cutter.push("%\n", at(0s))), Texts{"40%\n"});
}

TEST(LineCutter, BreaksALineThatIsTooLong) {
  LineCutter cutter(kHold);
  const std::string most(kLongestLine - 1, 'x');
  EXPECT_TRUE(cutter.push(most, at(0s)).empty());
  EXPECT_TRUE(cutter.push("y", at(0s)).empty());  // Exactly the limit is still one line.
  EXPECT_EQ(texts(cutter.push("\n", at(0s))), Texts{most + "y\n"});

  cutter.push(most, at(0s));
  EXPECT_EQ(texts(cutter.push("yz\nnext\nre", at(0s))), (Texts{most + "y\n", "z\nnext\n"}));
  EXPECT_EQ(texts(cutter.push(most, at(0s))), Texts{"re" + most.substr(0, most.size() - 1) + "\n"});
  EXPECT_EQ(texts(cutter.finish()), Texts{"x\n"});
}

TEST(LineCutter, PassesAnyBytes) {
  LineCutter cutter(kHold);
  const std::string bytes("\0\xff\xfe\x1b[1m\0\n", 9);
  EXPECT_EQ(texts(cutter.push(bytes, at(0s))), Texts{bytes});
}

TEST(LineCutter, BytesCutAnywhereGiveTheSameText) {
  SeededRandom random(7);
  for (int round = 0; round < 300; ++round) {
    std::string bytes;
    for (int i = 0; i < 60; ++i) bytes += "ab\n\r"[random.below(4)];
    for (const CutRules rules : {kAsIs, kTerminal}) {
      LineCutter cutter(rules);
      std::string shown;
      std::string_view rest = bytes;
      Instant now{};
      while (!rest.empty()) {
        const std::size_t piece = std::min<std::size_t>(rest.size(), 1 + random.below(7));
        for (const auto text : cutter.push(rest.substr(0, piece), now)) shown += text;
        now = now + Duration(20ms) * static_cast<int>(random.below(8));
        for (const auto text : cutter.expire(now)) shown += text;
        rest.remove_prefix(piece);
      }
      for (const auto text : cutter.finish()) shown += text;
      EXPECT_EQ(shown, bytes.back() == '\n' ? bytes : bytes + '\n');
    }
  }
}

const CutRules kStates{.last_segment_only = true, .bar_state = 5s};

TEST(LineCutter, TellsNowAndThenHowFarABarIs) {
  LineCutter cutter(kStates);
  EXPECT_EQ(texts(cutter.push("\r 1%", at(0s))), Texts{});
  for (int i = 1; i < 50; ++i) cutter.push("\r " + std::to_string(i) + "%", at(i * 100ms));
  EXPECT_EQ(cutter.next_deadline(), at(5s));
  EXPECT_EQ(texts(cutter.expire(at(4999ms))), Texts{});
  EXPECT_EQ(texts(cutter.expire(at(5s))), Texts{" 49%\n"});
  EXPECT_EQ(cutter.next_deadline(), std::nullopt);  // Nothing new.
  cutter.push("\r 50%", at(6s));
  EXPECT_EQ(cutter.next_deadline(), at(10s));
  EXPECT_EQ(texts(cutter.expire(at(11s))), Texts{" 50%\n"});
  EXPECT_EQ(texts(cutter.push("\r100%\n", at(12s))), Texts{" 50%\r100%\n"});  // The arranger cuts.
  EXPECT_EQ(cutter.next_deadline(), std::nullopt);
  EXPECT_EQ(texts(cutter.finish()), Texts{});
}

TEST(LineCutter, ABarThatIsSoonOverHasOneState) {
  LineCutter cutter(kStates);
  cutter.push("\r 1%\r 50%", at(0s));
  EXPECT_EQ(texts(cutter.push("\r100%\nnext", at(4s))), Texts{" 50%\r100%\n"});
  EXPECT_EQ(cutter.next_deadline(), std::nullopt);  // The next line is no bar.
  EXPECT_EQ(texts(cutter.finish()), Texts{"next\n"});
}

TEST(LineCutter, AStateIsNotToldTwice) {
  for (const std::string end : {"\n", "\r\n", ""}) {
    LineCutter cutter(kStates);
    cutter.push("\r100%", at(0s));
    EXPECT_EQ(texts(cutter.expire(at(5s))), Texts{"100%\n"});
    EXPECT_EQ(texts(end.empty() ? cutter.finish() : cutter.push(end, at(6s))), Texts{}) << end;
    EXPECT_EQ(texts(cutter.push("next\n", at(7s))), Texts{"next\n"});
  }
}

TEST(LineCutter, AStateThatIsWrittenInPartsIsGivenWhole) {
  LineCutter cutter(kStates);
  cutter.push("\r 10%", at(0s));
  EXPECT_EQ(texts(cutter.expire(at(5s))), Texts{" 10%\n"});
  cutter.push(" loss 0.3", at(6s));
  EXPECT_EQ(texts(cutter.expire(at(10s))), Texts{" 10% loss 0.3\n"});
}

TEST(LineCutter, ABarWithItsReturnAtTheEndHasStatesToo) {
  LineCutter cutter(kStates);
  cutter.push(" 10%\r", at(0s));
  cutter.push(" 20%\r", at(1s));
  EXPECT_EQ(texts(cutter.expire(at(5s))), Texts{" 20%\n"});
}

TEST(LineCutter, ABarThatIsWipedOutHasNoState) {
  LineCutter cutter(kStates);
  cutter.push("\r 10%", at(0s));
  cutter.push("\r     \r", at(1s));
  EXPECT_EQ(cutter.next_deadline(), std::nullopt);
}

TEST(LineCutter, AnUnfinishedLineThatIsNoBarWaitsForItsEnd) {
  LineCutter cutter(kStates);
  cutter.push("loading", at(0s));
  EXPECT_EQ(cutter.next_deadline(), std::nullopt);
}

}  // namespace
}  // namespace regroup::core::output
