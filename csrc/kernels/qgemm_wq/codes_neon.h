// Codes of a step (8 k) on Arm. Included by ISA sources.
#pragma once

#include <arm_neon.h>

#include <cstddef>
#include <cstdint>

#include "kernels/gemm_wq/weights.h"
#include "kernels/inline.h"

namespace cpuaccel::kernels {
namespace {

constexpr int64_t kStep = 8;
// Of a panel's codes.
template <int kBits>
constexpr int64_t kStepBytes = kBits * kWqColumns;

// Four columns: k 0 to 3 of each, and k 4 to 7.
struct Halves {
  int8x16_t low, high;
};

// kWhole: whether there is a dword of codes of 8 bits for k 4 to 7.
template <int kBits, bool kWhole>
CPUACCEL_INLINE Halves load_codes(const std::byte* codes) {
  const auto* bytes = reinterpret_cast<const int8_t*>(codes);
  const int8x16_t first = vld1q_s8(bytes);
  if constexpr (kBits == 8) {
    return {first, kWhole ? vld1q_s8(bytes + 4 * kWqColumns) : vdupq_n_s8(0)};
  } else {
    return {vandq_s8(first, vdupq_n_s8(0xf)),
            vreinterpretq_s8_u8(vshrq_n_u8(vreinterpretq_u8_s8(first), 4))};
  }
}

}  // namespace
}  // namespace cpuaccel::kernels
