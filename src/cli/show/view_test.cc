#include "cli/show/view.h"

#include <gtest/gtest.h>

namespace regroup::cli {
namespace {

using Form = View::Form;
using Level = View::Level;

const Surroundings kTerminal{.terminal = true, .term = "xterm"};
const Surroundings kPipe{.terminal = false, .term = "xterm"};

TEST(View, ATerminalHasALiveLineAndColours) {
  const View view = choose_view({}, kTerminal);
  EXPECT_EQ(view.form, Form::Terminal);
  EXPECT_TRUE(view.paint.on);
}

TEST(View, WhatIsNoTerminalHasPlainLines) {
  for (const Surroundings& around :
       {kPipe, Surroundings{.terminal = true, .term = "dumb"}, Surroundings{.terminal = true}}) {
    const View view = choose_view({}, around);
    EXPECT_EQ(view.form, Form::Plain);
    EXPECT_FALSE(view.paint.on);
  }
}

TEST(View, ColoursCanBeChosenByThemselves) {
  Surroundings without = kTerminal;
  without.no_color = "1";
  EXPECT_FALSE(choose_view({}, without).paint.on);
  EXPECT_EQ(choose_view({}, without).form, Form::Terminal);
  EXPECT_TRUE(choose_view({.color = "always"}, without).paint.on);
  EXPECT_TRUE(choose_view({.color = "always"}, kPipe).paint.on);
  EXPECT_EQ(choose_view({.color = "always"}, kPipe).form, Form::Plain);
  EXPECT_FALSE(choose_view({.color = "never"}, kTerminal).paint.on);
}

TEST(View, ForAProgramThereAreNoColoursAnywhere) {
  const View view = choose_view({.color = "always", .log_format = "json"}, kTerminal);
  EXPECT_EQ(view.form, Form::Json);
  EXPECT_FALSE(view.paint.on);
}

TEST(View, QuietIsStrongerThanVerbose) {
  EXPECT_EQ(choose_view({.quiet = true, .verbose = true}, kPipe).level, Level::Quiet);
  EXPECT_EQ(choose_view({.verbose = true}, kPipe).level, Level::Verbose);
  EXPECT_EQ(choose_view({.report = "torchrun"}, kPipe).report, View::Report::Torchrun);
}

}  // namespace
}  // namespace regroup::cli
