#include "base/byte_buffer.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/check.h"

namespace regroup {

static_assert(std::endian::native == std::endian::little);

std::span<char> ByteBuffer::prepare(std::size_t room) {
  if (capacity_ - end_ < room) {
    const std::size_t held = size();
    if (capacity_ >= held + room && begin_ >= held) {
      // Moving is cheap only while the contents are the smaller part; otherwise we would move them
      // again and again.
      std::memmove(data_.get(), data_.get() + begin_, held);
    } else {
      const std::size_t capacity = std::max(held + room, capacity_ * 2);
      auto data = std::make_unique_for_overwrite<char[]>(capacity);
      if (held != 0) std::memcpy(data.get(), data_.get() + begin_, held);
      data_ = std::move(data);
      capacity_ = capacity;
    }
    begin_ = 0;
    end_ = held;
  }
  return {data_.get() + end_, capacity_ - end_};
}

void ByteBuffer::commit(std::size_t filled) {
  CHECK(filled <= capacity_ - end_);
  end_ += filled;
}

void ByteBuffer::append(std::string_view bytes) {
  if (bytes.empty()) return;
  std::memcpy(prepare(bytes.size()).data(), bytes.data(), bytes.size());
  end_ += bytes.size();
}

void ByteBuffer::consume(std::size_t size) {
  CHECK(size <= end_ - begin_);
  begin_ += size;
  if (begin_ == end_) begin_ = end_ = 0;
}

void ByteBuffer::release_if_empty(std::size_t keep) {
  if (!empty() || capacity_ <= keep) return;
  data_.reset();
  capacity_ = begin_ = end_ = 0;
}

}  // namespace regroup
