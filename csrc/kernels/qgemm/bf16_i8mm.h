// Conversion of floats to bf16 by the BFCVTN instruction, for ISAs from i8mm on. Included by ISA
// sources only.
#pragma once

#include <arm_neon.h>

#include <cstdint>

#include "kernels/inline.h"

namespace cpuaccel::kernels {
namespace {

struct Bf16Instruction {
  CPUACCEL_INLINE static void store(uint16_t* dst, float32x4_t v) {
    vst1_u16(dst, vreinterpret_u16_bf16(vcvt_bf16_f32(v)));
  }
};

}  // namespace
}  // namespace cpuaccel::kernels
