// Codes of four columns as floats, with NEON. Included by the ISA source only.
#pragma once

#include <arm_neon.h>

#include <cstddef>
#include <cstdint>

#include "kernels/inline.h"

namespace cpuaccel::kernels {
namespace {

// Four k of a run. A code stays at its place in the dword while it becomes a float: conversions
// divide by a power of two. Codes of 8 bits are moved to the top, because they have a sign.
template <int kBits>
struct FourCodes {
  uint32x4_t dwords;

  // kHalf: the second four k of codes of 4 bits.
  template <int kHalf>
  CPUACCEL_INLINE static FourCodes load(const std::byte* from) {
    const uint32x4_t dwords =
        vreinterpretq_u32_u8(vld1q_u8(reinterpret_cast<const uint8_t*>(from)));
    return {kHalf == 0 ? dwords : vshrq_n_u32(dwords, 4)};
  }

  template <int kK>
  CPUACCEL_INLINE float32x4_t at() const {
    if constexpr (kBits == 4) {
      const uint32x4_t code = vandq_u32(dwords, vdupq_n_u32(0xfu << 8 * kK));
      if constexpr (kK == 0) {
        return vcvtq_f32_u32(code);
      } else {
        return vcvtq_n_f32_u32(code, 8 * kK);
      }
    } else {
      uint32x4_t code = dwords;
      if constexpr (kK < 3) {
        code = vshlq_n_u32(code, 24 - 8 * kK);
      }
      if constexpr (kK > 0) {
        code = vandq_u32(code, vdupq_n_u32(0xff000000));
      }
      return vcvtq_n_f32_s32(vreinterpretq_s32_u32(code), 24);
    }
  }
};

}  // namespace
}  // namespace cpuaccel::kernels
