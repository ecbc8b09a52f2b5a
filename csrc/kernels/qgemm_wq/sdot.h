// SDOT for few_rows_neon.h. Included with its flags only.
#pragma once

#include <arm_neon.h>

#include "kernels/inline.h"

namespace cpuaccel::kernels {
namespace {

struct Sdot {
  // In assembly, because GCC would move sums between registers.
  template <int kLane>
  CPUACCEL_INLINE static void dot(int32x4_t& sum, int8x16_t codes, int8x16_t rows) {
    asm("sdot %0.4s, %1.16b, %2.4b[%3]" : "+w"(sum) : "w"(codes), "w"(rows), "i"(kLane));
  }
};

}  // namespace
}  // namespace cpuaccel::kernels
