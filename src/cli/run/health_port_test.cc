#include "cli/run/health_port.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace regroup::cli {
namespace {

using testing::HasSubstr;

std::string where(const std::string& text) {
  const auto options = parse_health_port(text);
  if (!options) return "no";
  return options->address + " " + std::to_string(options->port);
}

TEST(HealthPort, IsForEveryAddressIfNoneIsNamed) {
  EXPECT_EQ(where("8080"), ":: 8080");
  EXPECT_EQ(where(":8080"), ":: 8080");
  EXPECT_EQ(where("0"), ":: 0");
}

TEST(HealthPort, IsForTheAddressThatIsNamed) {
  EXPECT_EQ(where("127.0.0.1:8080"), "127.0.0.1 8080");
  EXPECT_EQ(where("[::1]:8080"), "::1 8080");
  EXPECT_EQ(where("node-1:0"), "node-1 0");
}

TEST(HealthPort, RefusesWhatIsNone) {
  for (const char* text : {"", "x", "-1", "65536", "8080x", "127.0.0.1", "127.0.0.1:", "::1",
                           "::1:8080", "[::1]", "[x]:1", ":", "a b:1", "127.0.0.1:99999", "+1"})
    EXPECT_EQ(where(text), "no") << text;
}

TEST(HealthPort, OfTheFlagMustBeHad) {
  std::vector<std::string> notes;
  RunFlags flags;
  flags.health_port = "9090";
  flags.health_limit = 5;
  const auto options = choose_health_port(flags, "8080", notes);
  ASSERT_TRUE(options && *options);
  EXPECT_EQ((*options)->port, 9090);
  EXPECT_TRUE((*options)->required);
  EXPECT_EQ((*options)->limit, Duration(5s));
  flags.health_port = "x";
  EXPECT_THAT(choose_health_port(flags, nullptr, notes).error().message,
              HasSubstr("--health-port is 'x'; it takes a port"));
}

TEST(HealthPort, OfTheVariableIsAWish) {
  std::vector<std::string> notes;
  const auto options = choose_health_port({}, " 8080", notes);
  ASSERT_TRUE(options && *options);
  EXPECT_EQ((*options)->address, "::");
  EXPECT_FALSE((*options)->required);
  EXPECT_EQ((*options)->limit, Duration(60s));
  EXPECT_TRUE(notes.empty());
  EXPECT_FALSE(*choose_health_port({}, "http", notes));
  EXPECT_THAT(notes, testing::ElementsAre(HasSubstr("TORCHELASTIC_HEALTH_CHECK_PORT is 'http'")));
}

TEST(HealthPort, HasALimitOfMoreThanNothing) {
  std::vector<std::string> notes;
  RunFlags flags;
  flags.health_limit = 0;
  EXPECT_THAT(choose_health_port(flags, nullptr, notes).error().message,
              HasSubstr("--health-limit is 0"));
}

TEST(HealthPort, IsNotThereUnlessSomebodyWantsIt) {
  std::vector<std::string> notes;
  EXPECT_FALSE(*choose_health_port({}, nullptr, notes));
}

}  // namespace
}  // namespace regroup::cli
