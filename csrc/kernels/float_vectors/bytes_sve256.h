// Eight bytes as eight 32-bit numbers in 256-bit SVE: loads widen, stores narrow, and masks replace
// tail loops. Included with the flags of that vector length only.
#pragma once

#include "kernels/float_vectors/sve256.h"

namespace cpuaccel::kernels {
namespace {

// Calls body(first, mask) for every eight of `count` elements.
template <typename Body>
CPUACCEL_INLINE void each_eight(int64_t count, const Body& body) {
  for (int64_t i = 0; i < count; i += SveFloats8::kLanes) {
    body(i, static_cast<SveMask>(svwhilelt_b32_s64(i, count)));
  }
}

CPUACCEL_INLINE SveInts load_bytes(const uint8_t* src, SveMask m) { return svld1ub_s32(m, src); }

// Stores the low 8 bits of each lane.
CPUACCEL_INLINE void store_bytes(uint8_t* dst, SveInts v, SveMask m) {
  svst1b_u32(m, dst, svreinterpret_u32_s32(v));
}

CPUACCEL_INLINE SveFloats to_floats(SveInts v) { return svcvt_f32_s32_x(svptrue_b32(), v); }

// Rounds to nearest even; saturates; a NaN becomes 0.
CPUACCEL_INLINE SveInts rounded(SveFloats v) {
  return svcvt_s32_f32_x(svptrue_b32(), SveFloats(svrintn_f32_x(svptrue_b32(), v)));
}

// v + zero_point, clamped to [low, 255].
CPUACCEL_INLINE SveInts to_byte(SveInts v, int32_t zero_point, int32_t low) {
  const svint32_t all = svqadd_n_s32(v, zero_point);
  return svmin_n_s32_x(svptrue_b32(), svmax_n_s32_x(svptrue_b32(), all, low), 255);
}

}  // namespace
}  // namespace cpuaccel::kernels
