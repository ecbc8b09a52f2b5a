// What rows of src and columns of weights are read by. Included by Arm's sources only.
#pragma once

#include <arm_neon.h>

#include <cstdint>
#include <cstring>

#include "kernels/inline.h"
#include "kernels/qgemm/kernels.h"

namespace cpuaccel::kernels {
namespace {

// 16 bytes of a line from k on, with zeros past its end; zeros of a line that is not there.
struct LineBytes {
  const QgemmLines& lines;
  uint8x16_t flip;

  explicit LineBytes(const QgemmLines& of) : lines(of), flip(vdupq_n_u8(of.flip)) {}

  CPUACCEL_INLINE uint8x16_t whole(int64_t line, int64_t k) const {
    if (line >= lines.count) {
      return vdupq_n_u8(0);
    }
    return veorq_u8(vld1q_u8(lines.src + line * lines.stride + k), flip);
  }
  CPUACCEL_INLINE uint8x16_t part(int64_t line, int64_t k) const {
    uint8_t bytes[16] = {};
    if (line < lines.count) {
      std::memcpy(bytes, lines.src + line * lines.stride + k, static_cast<size_t>(lines.K - k));
    }
    return veorq_u8(vld1q_u8(bytes), flip);
  }
};

}  // namespace
}  // namespace cpuaccel::kernels
