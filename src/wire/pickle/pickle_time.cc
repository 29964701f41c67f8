#include "wire/pickle/pickle_time.h"

#include <algorithm>
#include <chrono>

namespace regroup::wire {
namespace {

using std::chrono::days;
using std::chrono::sys_days;

constexpr std::int64_t kSecond = 1'000'000;
constexpr std::int64_t kDay = 86'400 * kSecond;

constexpr std::int64_t start_of(int year) {
  return sys_days(std::chrono::year(year) / 1 / 1).time_since_epoch().count() * kDay;
}

}  // namespace

std::optional<std::int64_t> parse_datetime(std::string_view bytes) {
  if (bytes.size() != 10) return std::nullopt;
  const auto byte = [&](std::size_t at) -> unsigned {
    return static_cast<unsigned char>(bytes[at]);
  };
  const int year = static_cast<int>(byte(0) << 8 | byte(1));
  const std::int64_t micros = byte(7) << 16 | byte(8) << 8 | byte(9);
  const std::chrono::year_month_day date{std::chrono::year(year), std::chrono::month(byte(2)),
                                         std::chrono::day(byte(3))};
  if (year < 1 || year > 9999 || !date.ok() || byte(4) > 23 || byte(5) > 59 || byte(6) > 59 ||
      micros >= kSecond)
    return std::nullopt;
  const std::int64_t seconds = (byte(4) * 60 + byte(5)) * 60 + byte(6);
  return sys_days(date).time_since_epoch().count() * kDay + seconds * kSecond + micros;
}

std::array<char, 10> write_datetime(std::int64_t micros) {
  micros = std::clamp(micros, start_of(1), start_of(10'000) - 1);
  const std::int64_t whole_days = micros >= 0 ? micros / kDay : (micros + 1) / kDay - 1;
  const std::chrono::year_month_day date{sys_days(days(whole_days))};
  const std::int64_t in_day = micros - whole_days * kDay;
  const std::int64_t seconds = in_day / kSecond;
  const std::int64_t rest = in_day % kSecond;
  const int year = static_cast<int>(date.year());
  const auto byte = [](std::int64_t value) { return static_cast<char>(value & 0xff); };
  return {byte(year >> 8),
          byte(year),
          byte(static_cast<unsigned>(date.month())),
          byte(static_cast<unsigned>(date.day())),
          byte(seconds / 3600),
          byte(seconds / 60 % 60),
          byte(seconds % 60),
          byte(rest >> 16),
          byte(rest >> 8),
          byte(rest)};
}

}  // namespace regroup::wire
