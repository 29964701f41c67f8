#include "runtime/coordinator/run_table.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

namespace regroup::runtime {
namespace {

class Keys final : public KeyAccess {
 public:
  std::string_view get(std::string_view key) override { return keys_[std::string(key)]; }
  void set(std::string_view key, std::string_view value) override {
    keys_[std::string(key)] = value;
  }

 private:
  std::map<std::string, std::string> keys_;
};

TEST(RunTable, RemembersThatARunHasEndedWhenItIsForgotten) {
  Keys keys;
  RunTable runs(1);
  const core::coordinator::Now now{Instant{} + 1h, {}};
  core::rendezvous::State closed;
  closed.closed = true;
  const auto make = [&](const std::string& id, std::optional<core::rendezvous::State> present) {
    return runs.make({.run_id = id}, ShownState(id, ShownState::To::SessionsOnly),
                     std::move(present), keys, now);
  };
  ASSERT_NE(make("a", closed), nullptr);
  EXPECT_FALSE(runs.has_ended("a"));
  ASSERT_NE(make("b", {}), nullptr);
  EXPECT_EQ(runs.find("a"), nullptr);
  EXPECT_TRUE(runs.has_ended("a"));
  ASSERT_NE(make("c", {}), nullptr);
  EXPECT_FALSE(runs.has_ended("b")) << "It was deserted, and may begin again.";
}

}  // namespace
}  // namespace regroup::runtime
