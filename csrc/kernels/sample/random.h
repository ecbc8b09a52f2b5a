// Counter-based random numbers: the i-th number of a stream is a function of the seed, the stream
// and i, so it does not depend on which thread computes it.
#pragma once

#include <cstdint>

#include "kernels/inline.h"

namespace cpuaccel::kernels {

// SplitMix64's output function (Steele, Lea, Flood, OOPSLA 2014): a bijection.
CPUACCEL_INLINE uint64_t mix_bits(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

class RandomStream {
 public:
  // `key` and `number` identify the stream.
  RandomStream(uint64_t seed, uint64_t key, uint64_t number)
      : state_(mix_bits(mix_bits(seed + kStep * (key + 1)) + kStep * (number + 1))) {}

  CPUACCEL_INLINE uint64_t next() {
    state_ += kStep;
    return mix_bits(state_);
  }

  // Uniform in 0, 1, ..., bound - 1 (Lemire, TOMACS 2019). bound > 0.
  CPUACCEL_INLINE int64_t below(int64_t bound) {
    const auto n = static_cast<uint64_t>(bound);
    auto product = static_cast<unsigned __int128>(next()) * n;
    if (static_cast<uint64_t>(product) < n) [[unlikely]] {
      const uint64_t uneven = (0 - n) % n;
      while (static_cast<uint64_t>(product) < uneven) {
        product = static_cast<unsigned __int128>(next()) * n;
      }
    }
    return static_cast<int64_t>(static_cast<uint64_t>(product >> 64));
  }

 private:
  static constexpr uint64_t kStep = 0x9e3779b97f4a7c15ull;  // odd, from the golden ratio
  uint64_t state_;
};

}  // namespace cpuaccel::kernels
