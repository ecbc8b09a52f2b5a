#include <arm_neon.h>

#include "kernels/inline.h"
#include "kernels/transpose/impl.h"

namespace cpuaccel::kernels {
namespace {

struct Interleave2 {
  static constexpr int64_t kM = 2;
  CPUACCEL_INLINE static void columns(const uint8_t* src, int64_t stride, uint8_t* dst) {
    vst2q_u8(dst, uint8x16x2_t{{vld1q_u8(src), vld1q_u8(src + stride)}});
  }
};

struct Interleave3 {
  static constexpr int64_t kM = 3;
  CPUACCEL_INLINE static void columns(const uint8_t* src, int64_t stride, uint8_t* dst) {
    vst3q_u8(dst,
             uint8x16x3_t{{vld1q_u8(src), vld1q_u8(src + stride), vld1q_u8(src + 2 * stride)}});
  }
};

struct Interleave4 {
  static constexpr int64_t kM = 4;
  CPUACCEL_INLINE static void columns(const uint8_t* src, int64_t stride, uint8_t* dst) {
    vst4q_u8(dst, uint8x16x4_t{{vld1q_u8(src), vld1q_u8(src + stride), vld1q_u8(src + 2 * stride),
                                vld1q_u8(src + 3 * stride)}});
  }
};

// Interleaving row i with row i + 8 rotates the eight bits (row, column) of a byte's place by one.
// Doing so four times swaps row and column.
struct Block {
  static constexpr int64_t kM = 16, kK = 16;
  using Rows2 = Interleave2;
  using Rows3 = Interleave3;
  using Rows4 = Interleave4;
  CPUACCEL_INLINE static void of(const uint8_t* src, int64_t src_stride, uint8_t* dst,
                                 int64_t dst_stride) {
    uint8x16_t rows[kM];
    for (int i = 0; i < kM; ++i) {
      rows[i] = vld1q_u8(src + i * src_stride);
    }
#pragma GCC unroll 4
    for (int round = 0; round < 4; ++round) {
      uint8x16_t mixed[kM];
#pragma GCC unroll 8
      for (int i = 0; i < 8; ++i) {
        mixed[2 * i] = vzip1q_u8(rows[i], rows[i + 8]);
        mixed[2 * i + 1] = vzip2q_u8(rows[i], rows[i + 8]);
      }
#pragma GCC unroll 16
      for (int i = 0; i < kM; ++i) {
        rows[i] = mixed[i];
      }
    }
    for (int i = 0; i < kK; ++i) {
      vst1q_u8(dst + i * dst_stride, rows[i]);
    }
  }
};

}  // namespace

void transpose_arm64_neon(const Transpose& shape, const uint8_t* src, uint8_t* dst) {
  transpose_by<Block>(shape, src, dst);
}

}  // namespace cpuaccel::kernels
