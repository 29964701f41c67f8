#include "io/file/pipe.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string>

namespace regroup::io {
namespace {

TEST(Pipe, ReadsWhatIsThereAndThenTheEnd) {
  auto pipe = make_pipe(65536);
  ASSERT_TRUE(pipe);
  EXPECT_GE(pipe->capacity, 4096u);
  std::array<char, 8> room{};
  EXPECT_EQ(read_available(pipe->read.get(), room).bytes, 0u);
  EXPECT_EQ(write_all(pipe->write.get(), "ten  bytes").bytes, 10u);
  Got got = read_available(pipe->read.get(), room);
  EXPECT_EQ(got.bytes, 8u);
  EXPECT_FALSE(got.end);
  pipe->write.close();
  got = read_available(pipe->read.get(), room);
  EXPECT_EQ(got.bytes, 2u);
  EXPECT_TRUE(got.end);
}

TEST(Pipe, OnlyOurEndDoesNotBlock) {
  auto pipe = make_pipe(65536);
  ASSERT_TRUE(pipe);
  EXPECT_TRUE(::fcntl(pipe->read.get(), F_GETFL) & O_NONBLOCK);
  EXPECT_FALSE(::fcntl(pipe->write.get(), F_GETFL) & O_NONBLOCK);
}

TEST(Pipe, DescriptorsAreToldApart) {
  auto pipe = make_pipe(65536);
  auto null = open_null();
  auto copy = duplicate(pipe->write.get());
  ASSERT_TRUE(pipe && null && copy);
  EXPECT_EQ(kind_of(pipe->read.get()), FdKind::Stream);
  EXPECT_EQ(kind_of(null->get()), FdKind::Device);
  EXPECT_EQ(kind_of(987), FdKind::Closed);
  EXPECT_TRUE(is_same_file(copy->get(), pipe->write.get()));
  EXPECT_FALSE(is_same_file(copy->get(), null->get()));
  EXPECT_FALSE(is_same_file(987, 987));
}

TEST(Pipe, SaysWhyNothingWasWritten) {
  const Descriptor full(::open("/dev/full", O_WRONLY | O_CLOEXEC));
  const Put put = write_all(full.get(), "x");
  EXPECT_EQ(put.bytes, 0u);
  EXPECT_EQ(error_in_words(put.error), "No space left on device");
}

TEST(Pipe, AWakeUpStaysUntilItIsCleared) {
  auto wake_up = WakeUp::open();
  ASSERT_TRUE(wake_up);
  pollfd ready{wake_up->descriptor(), POLLIN, 0};
  EXPECT_EQ(::poll(&ready, 1, 0), 0);
  wake_up->ring();
  wake_up->ring();
  EXPECT_EQ(::poll(&ready, 1, 0), 1);
  wake_up->clear();
  EXPECT_EQ(::poll(&ready, 1, 0), 0);
}

}  // namespace
}  // namespace regroup::io
