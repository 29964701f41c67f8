#include "base/byte_buffer.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "base/random.h"

namespace regroup {
namespace {

TEST(ByteBuffer, GivesBackBytesInOrder) {
  ByteBuffer buffer;
  buffer.append("abc");
  buffer.append_u8(0xff);
  buffer.append_u32(1);
  EXPECT_EQ(buffer.view(), std::string_view("abc\xff\1\0\0\0", 8));
  buffer.consume(3);
  EXPECT_EQ(buffer.size(), 5u);
  buffer.consume(5);
  EXPECT_TRUE(buffer.empty());
}

TEST(ByteBuffer, GivesItsMemoryBackWhenEmpty) {
  ByteBuffer buffer;
  buffer.append(std::string(1000, 'x'));
  buffer.release_if_empty();
  EXPECT_EQ(buffer.size(), 1000u);  // Not while something is in it.
  buffer.consume(1000);
  buffer.release_if_empty(4096);
  EXPECT_GE(buffer.capacity(), 1000u);
  buffer.release_if_empty(100);
  EXPECT_EQ(buffer.capacity(), 0u);
  buffer.append("y");
  EXPECT_EQ(buffer.view(), "y");
}

TEST(ByteBuffer, DoesNotGrowWhileItIsEmptiedAsFastAsItIsFilled) {
  ByteBuffer buffer;
  for (int i = 0; i < 10000; ++i) {
    buffer.append(std::string(100, 'x'));
    buffer.consume(i == 0 ? 50 : 100);
  }
  EXPECT_LE(buffer.capacity(), 1000u);
}

TEST(ByteBuffer, AgreesWithAStringThroughAnyMixture) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    SeededRandom random(seed);
    ByteBuffer buffer;
    std::string model;
    for (int step = 0; step < 200; ++step) {
      const std::size_t size = random.below(300);
      const std::string piece(size, static_cast<char>('a' + step % 26));
      switch (random.below(4)) {
        case 0:
          buffer.append(piece);
          model += piece;
          break;
        case 1: {
          const auto room = buffer.prepare(size);
          ASSERT_GE(room.size(), size);
          std::memcpy(room.data(), piece.data(), size);
          buffer.commit(size);
          model += piece;
          break;
        }
        case 2: {
          const std::size_t taken = random.below(model.size() + 1);
          buffer.consume(taken);
          model.erase(0, taken);
          break;
        }
        case 3:
          buffer.release_if_empty(random.below(500));
          break;
      }
      ASSERT_EQ(buffer.view(), model) << "seed " << seed << " step " << step;
    }
  }
}

}  // namespace
}  // namespace regroup
