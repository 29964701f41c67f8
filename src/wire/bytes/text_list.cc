#include "wire/bytes/text_list.h"

#include <fmt/core.h>

#include <cstdint>
#include <cstring>

namespace regroup::wire {

std::optional<std::variant<NeedMore, Malformed>> measure(const TextList& list,
                                                         std::string_view bytes,
                                                         Progress& progress) {
  constexpr std::size_t kLength = sizeof(std::uint64_t);
  if (progress.position < list.start) progress.position = list.start;
  const auto too_long = [&] {
    return Malformed{fmt::format("a message of more than {} bytes", list.most)};
  };
  while (progress.items < list.count) {
    const std::size_t lengths = (list.count - progress.items) * kLength;
    std::size_t wanted = progress.position + lengths;
    if (wanted > list.most) return too_long();
    if (bytes.size() < wanted) return NeedMore{progress.at_least = wanted};
    std::uint64_t length = 0;
    std::memcpy(&length, bytes.data() + progress.position, kLength);
    const std::size_t limit = progress.items % 2 == 0 ? list.even_limit : list.odd_limit;
    if (length > limit)
      return Malformed{
          fmt::format("a string of {} bytes in a list; the limit is {}", length, limit)};
    wanted += length;
    if (wanted > list.most) return too_long();
    if (bytes.size() < wanted) return NeedMore{progress.at_least = wanted};
    progress.position += kLength + length;
    ++progress.items;
  }
  return std::nullopt;
}

}  // namespace regroup::wire
