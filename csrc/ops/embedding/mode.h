// The modes of EmbeddingBag, as torch's ops number them.
#pragma once

#include <c10/util/Exception.h>

#include <cstdint>

namespace cpuaccel::ops {

inline constexpr int64_t kModeSum = 0, kModeMean = 1, kModeMax = 2;

inline void check_mode(int64_t mode, const char* op) {
  TORCH_CHECK(mode >= kModeSum && mode <= kModeMax, op,
              ": expected mode to be 0 (sum), 1 (mean) or 2 (max), but got ", mode);
}

}  // namespace cpuaccel::ops
