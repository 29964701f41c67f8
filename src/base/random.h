// Numbers that look random and repeat with the same seed (SplitMix64). Not for secrets.
#pragma once

#include <cstdint>

namespace regroup {

class SeededRandom {
 public:
  explicit SeededRandom(std::uint64_t seed) : state_(seed) {}

  std::uint64_t next() {
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }

  // 0 <= result < bound. The bias is below 2^-32 for every bound that is used here.
  std::uint64_t below(std::uint64_t bound) { return next() % bound; }

  bool one_in(std::uint64_t n) { return below(n) == 0; }

  // 0 <= result < 1.
  double fraction() { return static_cast<double>(next() >> 11) * 0x1p-53; }

 private:
  std::uint64_t state_;
};

}  // namespace regroup
