// Bytes on their way in or out: appended at the end, consumed at the front.
//
//   auto room = buffer.prepare(4096);          // Somewhere to read into,
//   buffer.commit(read(fd, room));             // of which so much was filled.
//   buffer.consume(parse(buffer.view()));
//
// Views and spans hold until the next non-const call. An empty buffer costs no heap memory once
// release_if_empty() has been called.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <utility>

namespace regroup {

class ByteBuffer {
 public:
  ByteBuffer() = default;
  ByteBuffer(ByteBuffer&& other) noexcept { swap(other); }
  ByteBuffer& operator=(ByteBuffer&& other) noexcept {
    swap(other);
    return *this;
  }

  std::string_view view() const { return {data_.get() + begin_, end_ - begin_}; }
  std::size_t size() const { return end_ - begin_; }
  bool empty() const { return begin_ == end_; }
  std::size_t capacity() const { return capacity_; }

  // At least `room` writable bytes behind the contents; commit() adds what was filled.
  std::span<char> prepare(std::size_t room);
  void commit(std::size_t filled);

  void append(std::string_view bytes);
  void append_u8(std::uint8_t value) { append_raw(value); }
  void append_u32(std::uint32_t value) { append_raw(value); }
  void append_u64(std::uint64_t value) { append_raw(value); }
  void append_i64(std::int64_t value) { append_raw(value); }

  void consume(std::size_t size);
  void clear() { begin_ = end_ = 0; }

  // Gives back the memory when nothing is in it and more than `keep` bytes are held.
  void release_if_empty(std::size_t keep = 0);

 private:
  // The protocols here are little-endian, as is every platform that PyTorch runs on.
  template <class T>
  void append_raw(T value) {
    append({reinterpret_cast<const char*>(&value), sizeof value});
  }

  void swap(ByteBuffer& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(capacity_, other.capacity_);
    std::swap(begin_, other.begin_);
    std::swap(end_, other.end_);
  }

  std::unique_ptr<char[]> data_;
  std::size_t capacity_ = 0;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
};

}  // namespace regroup
