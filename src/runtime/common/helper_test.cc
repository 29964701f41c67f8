#include "runtime/common/helper.h"

#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <thread>

namespace regroup::runtime {
namespace {

TEST(Helper, BringsTheValueBackToTheLoop) {
  auto loop = std::move(*io::Loop::open());
  Helper helper(*loop, "helper");
  const auto here = std::this_thread::get_id();
  int got = 0;
  helper.run(
      [here]() -> Result<int> {
        EXPECT_NE(std::this_thread::get_id(), here);
        return 7;
      },
      [&](const Result<int>& answer) {
        EXPECT_EQ(std::this_thread::get_id(), here);
        got = answer.value_or(0);
        loop->stop();
      });
  loop->run();
  EXPECT_EQ(got, 7);
}

TEST(Helper, DropsWhatComesWhenItIsGone) {
  auto loop = std::move(*io::Loop::open());
  auto helper = std::make_unique<Helper>(*loop, "helper");
  auto go_on = std::make_shared<std::promise<void>>();
  auto worked = std::make_shared<std::promise<void>>();
  helper->run(
      [go_on, worked]() -> Result<int> {
        go_on->get_future().wait();
        worked->set_value();
        return 7;
      },
      [](const Result<int>&) { ADD_FAILURE() << "nobody is there to hear it"; });
  helper.reset();
  go_on->set_value();
  worked->get_future().wait();
  loop->post([&] { loop->stop(); });
  loop->run();
}

}  // namespace
}  // namespace regroup::runtime
