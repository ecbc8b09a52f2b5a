// Loads of rows of src and columns of weights for packing. Included by Arm's sources only.
#pragma once

#include <arm_neon.h>

#include <cstdint>
#include <cstring>

#include "kernels/inline.h"
#include "kernels/qgemm/kernels.h"

namespace cpuaccel::kernels {
namespace {

// First byte of a line; lines past the last one repeat it.
CPUACCEL_INLINE const uint8_t* line_at(const QgemmLines& lines, int64_t line) {
  return lines.src + (line < lines.count ? line : lines.count - 1) * lines.stride;
}

CPUACCEL_INLINE uint8x16_t line_bytes(const uint8_t* from, uint8x16_t flip) {
  return veorq_u8(vld1q_u8(from), flip);
}

// The last bytes of a line, fewer than 16. The bytes behind them are zeros before the flip: they
// are multiplied by zeros.
CPUACCEL_INLINE uint8x16_t last_line_bytes(const uint8_t* from, int64_t count, uint8x16_t flip) {
  uint8_t bytes[16] = {};
  std::memcpy(bytes, from, static_cast<size_t>(count));
  return line_bytes(bytes, flip);
}

}  // namespace
}  // namespace cpuaccel::kernels
