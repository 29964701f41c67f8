#include "io/loop/thread_name.h"

#include <gtest/gtest.h>
#include <pthread.h>

#include <array>
#include <string>
#include <thread>

namespace regroup::io {
namespace {

std::string name_of_this_thread() {
  std::array<char, 32> name{};
  EXPECT_EQ(::pthread_getname_np(::pthread_self(), name.data(), name.size()), 0);
  return name.data();
}

TEST(ThreadName, IsThatOfTheThreadAndLeavesTheProcessItsOwn) {
  const std::string before = name_of_this_thread();
  std::string name;
  std::thread([&] {
    name_this_thread("fifteen letters");
    name = name_of_this_thread();
  }).join();
  EXPECT_EQ(name, "fifteen letters");
  EXPECT_EQ(name_of_this_thread(), before);
}

}  // namespace
}  // namespace regroup::io
