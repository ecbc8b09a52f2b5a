// Integer quotients and multiples, rounded up, of numbers that are not negative.
#pragma once

#include <cstdint>

namespace cpuaccel::kernels {

constexpr int64_t divide_up(int64_t value, int64_t by) {
  // Not (value + by - 1) / by, which may overflow.
  return value / by + (value % by != 0 ? 1 : 0);
}
constexpr int64_t round_up(int64_t value, int64_t multiple) {
  return divide_up(value, multiple) * multiple;
}

}  // namespace cpuaccel::kernels
