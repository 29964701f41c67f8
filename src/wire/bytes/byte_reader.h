// Reads little-endian fields from bytes that may end too early.
//
// A read beyond the end, or beyond a limit, fails and every later read fails too; the caller checks
// once, at the end, what went wrong first.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

namespace regroup::wire {

class ByteReader {
 public:
  // `most`: how long a whole message may be. It is judged by what the fields announce, so a message
  // that is too long is refused in the same place whether it is there already or not.
  ByteReader(std::string_view bytes, std::size_t most) : bytes_(bytes), most_(most) {}

  template <class T>
  T number() {
    T value{};
    const std::string_view raw = bytes(sizeof value);
    if (ok()) std::memcpy(&value, raw.data(), sizeof value);
    return value;
  }

  std::string_view bytes(std::size_t size) {
    if (failed_) return {};
    if (size > most_ - position_) {
      refuse("a message of more than " + std::to_string(most_) + " bytes");
      return {};
    }
    if (bytes_.size() - position_ < size) {
      at_least_ = position_ + size;
      failed_ = true;
      return {};
    }
    const std::string_view taken = bytes_.substr(position_, size);
    position_ += size;
    return taken;
  }

  // A u64 length, then that many bytes. `what` names it in the reason.
  std::string_view text(std::size_t limit, const char* what) {
    const auto length = number<std::uint64_t>();
    if (!ok()) return {};
    if (length > limit) {
      refuse(std::string(what) + " of " + std::to_string(length) + " bytes; the limit is " +
             std::to_string(limit));
      return {};
    }
    return bytes(length);
  }

  void refuse(std::string reason) {
    if (ok()) reason_ = std::move(reason);
    failed_ = true;
  }

  bool ok() const { return !failed_; }
  // All bytes that are there have been read.
  bool at_end() const { return position_ == bytes_.size(); }
  bool refused() const { return !reason_.empty(); }
  std::string take_reason() { return std::move(reason_); }
  std::size_t position() const { return position_; }
  // The least number of bytes that a whole message has, if the end came too early.
  std::size_t at_least() const { return at_least_; }

 private:
  std::string_view bytes_;
  std::size_t most_;
  std::size_t position_ = 0;
  std::size_t at_least_ = 0;
  bool failed_ = false;
  std::string reason_;
};

}  // namespace regroup::wire
