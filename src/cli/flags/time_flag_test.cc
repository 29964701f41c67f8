#include "cli/flags/time_flag.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

namespace regroup::cli {
namespace {

TEST(TimeFlag, TakesUnitsAndBareSeconds) {
  EXPECT_EQ(seconds_of("90"), 90);
  EXPECT_EQ(seconds_of("1e3"), 1000);
  EXPECT_EQ(seconds_of("90s"), 90);
  EXPECT_EQ(seconds_of("10m"), 600);
  EXPECT_EQ(seconds_of("1.5h"), 5400);
  EXPECT_EQ(seconds_of("100ms"), 0.1);
  for (const char* wrong : {"", "x", "10x", "m", "10 m", "inf", "nan"})
    EXPECT_EQ(seconds_of(wrong), std::nullopt) << wrong;
}

TEST(TimeFlag, GivesTheOptionSecondsWithinItsLimits) {
  double seconds = 0;
  const auto parse = [&](const char* value) {
    CLI::App app;
    takes_time(app.add_option("--limit", seconds), 0.5, 3600);
    app.parse(std::vector<std::string>{value, "--limit"});
  };
  parse("10m");
  EXPECT_EQ(seconds, 600);
  parse("500ms");
  EXPECT_EQ(seconds, 0.5);
  EXPECT_THROW(parse("2h"), CLI::ParseError);
  EXPECT_THROW(parse("0"), CLI::ParseError);
  EXPECT_THROW(parse("soon"), CLI::ParseError);
}

}  // namespace
}  // namespace regroup::cli
