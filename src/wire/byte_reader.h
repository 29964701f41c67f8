// Reads little-endian fields from bytes that may end too early.
//
// A read beyond the end, or beyond a limit, fails and every later read fails too; the caller looks
// once, at the end, at what went wrong first.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

namespace regroup::wire {

class ByteReader {
 public:
  explicit ByteReader(std::string_view bytes) : bytes_(bytes) {}

  template <class T>
  T number() {
    T value{};
    const std::string_view raw = bytes(sizeof value);
    if (ok()) std::memcpy(&value, raw.data(), sizeof value);
    return value;
  }

  std::string_view bytes(std::size_t size) {
    if (failed_) return {};
    // What is still to come is asked for too, before anything behind this is looked at. Else the
    // same bytes would be judged differently when they come in one piece and when they come in two.
    const std::size_t wanted = size + still_to_come_;
    if (bytes_.size() - position_ < wanted) {
      at_least_ = position_ + wanted;
      failed_ = true;
      return {};
    }
    const std::string_view taken = bytes_.substr(position_, size);
    position_ += size;
    return taken;
  }

  // A u64 length, then so many bytes. `what` names it in the reason.
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

  // A u64 count of things that take at least `each` bytes.
  std::size_t count(std::size_t limit, std::size_t each, const char* what) {
    const auto n = number<std::uint64_t>();
    if (!ok()) return 0;
    if (n > limit) {
      refuse(std::to_string(n) + " " + what + "; the limit is " + std::to_string(limit));
      return 0;
    }
    still_to_come_ = n * each;
    return n;
  }
  // One of the counted things begins.
  void counted(std::size_t each) { still_to_come_ -= each; }

  void refuse(std::string reason) {
    if (ok()) reason_ = std::move(reason);
    failed_ = true;
  }

  bool ok() const { return !failed_; }
  bool refused() const { return !reason_.empty(); }
  std::string take_reason() { return std::move(reason_); }
  std::size_t position() const { return position_; }
  // How many bytes a whole message has at the least, if the end came too early.
  std::size_t at_least() const { return at_least_; }

 private:
  std::string_view bytes_;
  std::size_t position_ = 0;
  std::size_t still_to_come_ = 0;
  std::size_t at_least_ = 0;
  bool failed_ = false;
  std::string reason_;
};

}  // namespace regroup::wire
