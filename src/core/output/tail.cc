#include "core/output/tail.h"

#include <algorithm>

#include "core/output/limits.h"

namespace regroup::core::output {
namespace {

constexpr std::size_t kRing = kTailBytes + 1;

}  // namespace

void Tail::add(std::string_view bytes) {
  if (bytes.size() >= kRing) {
    ring_.assign(bytes.substr(bytes.size() - kRing));
    oldest_ = 0;
    return;
  }
  const std::size_t free = kRing - ring_.size();
  ring_ += bytes.substr(0, free);
  bytes.remove_prefix(std::min(free, bytes.size()));
  while (!bytes.empty()) {
    const std::size_t piece = std::min(bytes.size(), kRing - oldest_);
    bytes.copy(ring_.data() + oldest_, piece);
    oldest_ = (oldest_ + piece) % kRing;
    bytes.remove_prefix(piece);
  }
}

std::string Tail::text() const {
  return from_line_start(ring_.substr(oldest_) + ring_.substr(0, oldest_), ring_.size() < kRing);
}

std::string from_line_start(std::string_view end_of_stream, bool whole) {
  if (whole || end_of_stream.empty()) return std::string(end_of_stream);
  const std::size_t line_end = end_of_stream.find('\n');
  const bool something_follows =
      line_end != std::string_view::npos && line_end + 1 < end_of_stream.size();
  return std::string(end_of_stream.substr(something_follows ? line_end + 1 : 1));
}

}  // namespace regroup::core::output
