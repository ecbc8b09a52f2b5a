// NEON vector class of attention's softmax. Included by ISA sources only.
#pragma once

#include "kernels/float_vectors/exp_neon.h"

namespace cpuaccel::kernels {
namespace {

struct AttentionFloats4 : ExpFloats4 {
  using ExpFloats4::select;
  // a in the first m lanes, b in the others.
  CPUACCEL_INLINE static Vector select(Mask m, Vector a, Vector b) {
    const uint32_t lanes[kLanes] = {0, 1, 2, 3};
    return select(vcltq_u32(vld1q_u32(lanes), vdupq_n_u32(static_cast<uint32_t>(m))), a, b);
  }
};

}  // namespace
}  // namespace cpuaccel::kernels
