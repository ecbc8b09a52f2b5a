// Fewer sizes for tests on emulated CPUs (CPUACCEL_TEST_EMULATED is set), which take a hundred
// times as long. On a real CPU all sizes run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <initializer_list>
#include <vector>

namespace cpuaccel {

inline bool is_emulated() {
  static const bool emulated = std::getenv("CPUACCEL_TEST_EMULATED") != nullptr;
  return emulated;
}

// The step of a loop over sizes. Vector widths are powers of two, so an odd step meets all tails.
inline int64_t every(int64_t step) { return is_emulated() ? step : 1; }

// The first of `values` and each `step`-th after it.
template <typename T>
std::vector<T> some_of(std::initializer_list<T> values, size_t step) {
  std::vector<T> some;
  for (size_t i = 0; i < values.size(); i += is_emulated() ? step : 1) {
    some.push_back(values.begin()[i]);
  }
  return some;
}

}  // namespace cpuaccel
