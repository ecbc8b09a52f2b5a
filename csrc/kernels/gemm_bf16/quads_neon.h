// Packs quads of bf16 from lines of f32 or bf16, for BFMMLA. Included by the ISA source only.
//
// A line is a row of A or a column of B. A quad is four of its elements in successive k, with zeros
// past its end. The quads of two lines side by side are an operand of BFMMLA.
#pragma once

#include <arm_neon.h>

#include <cstdint>

#include "kernels/gemm/kernels.h"
#include "kernels/gemm/unroll.h"
#include "kernels/inline.h"

namespace cpuaccel::kernels {
namespace {

struct HalvesOfF32 {
  using Element = float;
  CPUACCEL_INLINE static uint16x4_t load4(const float* src) {
    return vreinterpret_u16_bf16(vcvt_bf16_f32(vld1q_f32(src)));
  }
  CPUACCEL_INLINE static uint16x8_t load8(const float* src) {
    const bfloat16x8_t low = vcvtq_low_bf16_f32(vld1q_f32(src));
    return vreinterpretq_u16_bf16(vcvtq_high_bf16_f32(low, vld1q_f32(src + 4)));
  }
};

struct HalvesOfBf16 {
  using Element = uint16_t;
  CPUACCEL_INLINE static uint16x4_t load4(const uint16_t* src) { return vld1_u16(src); }
  CPUACCEL_INLINE static uint16x8_t load8(const uint16_t* src) { return vld1q_u16(src); }
};

// Lines and where their quads go: those of lines 2i and 2i + 1, from k = 4q on, side by side to
//   dst[i * pair_stride + q * quad_stride]
template <typename S>
struct Lines {
  const typename S::Element* src;
  int64_t count, stride;
  int64_t depth, depth_stride;
  float* dst;
  int64_t pair_stride, quad_stride;
};

// Loads the first `count` elements, at most 8; the others are zeros.
template <typename S>
CPUACCEL_INLINE uint16x8_t along(const typename S::Element* src, int64_t stride, int64_t count) {
  if (count >= 8 && stride == 1) {
    return S::load8(src);
  }
  typename S::Element some[8] = {};
  for (int64_t i = 0; i < (count < 8 ? count : 8); ++i) {
    some[i] = src[i * stride];
  }
  return S::load8(some);
}

// Loads an element of each of four neighboring lines, or of the first `count`; the others are
// zeros.
template <typename S>
CPUACCEL_INLINE uint16x4_t across(const typename S::Element* src, int64_t count) {
  typename S::Element some[4] = {};
  for (int64_t i = 0; i < (count < 4 ? count : 4); ++i) {
    some[i] = src[i];
  }
  return S::load4(some);
}

CPUACCEL_INLINE void store_quads(float* dst, uint64x2_t quads) {
  vst1q_f32(dst, vreinterpretq_f32_u64(quads));
}

template <typename S>
void quads_along(const Lines<S>& lines) {
  const int64_t depth = lines.depth, step = lines.depth_stride, quad_stride = lines.quad_stride;
  for (int64_t i = 0; i < lines.count; i += 2) {
    const auto* first = lines.src + i * lines.stride;
    const auto* second = first + lines.stride;
    const bool both = i + 1 < lines.count;
    float* dst = lines.dst + i / 2 * lines.pair_stride;
    int64_t k = 0;
    if (both && step == 1) {
      for (; k + 8 <= depth; k += 8, dst += 2 * quad_stride) {
        const uint64x2_t x = vreinterpretq_u64_u16(S::load8(first + k));
        const uint64x2_t y = vreinterpretq_u64_u16(S::load8(second + k));
        store_quads(dst, vzip1q_u64(x, y));
        store_quads(dst + quad_stride, vzip2q_u64(x, y));
      }
    }
    for (; k < depth; k += 8, dst += 2 * quad_stride) {
      const int64_t count = depth - k;
      const uint64x2_t x = vreinterpretq_u64_u16(along<S>(first + k * step, step, count));
      uint64x2_t y = vdupq_n_u64(0);
      if (both) {
        y = vreinterpretq_u64_u16(along<S>(second + k * step, step, count));
      }
      store_quads(dst, vzip1q_u64(x, y));
      if (count > 4) {
        store_quads(dst + quad_stride, vzip2q_u64(x, y));
      }
    }
  }
}

// Stores the quads of four lines, or of the first two, given elements at four k.
CPUACCEL_INLINE void store_turned(float* dst, int64_t pair_stride, uint16x4_t (&halves)[4],
                                  bool four) {
  const auto pairs = [&](int k) {
    const uint16x4x2_t zipped = vzip_u16(halves[k], halves[k + 1]);
    return vreinterpretq_u32_u16(vcombine_u16(zipped.val[0], zipped.val[1]));
  };
  const uint32x4_t low = pairs(0), high = pairs(2);
  store_quads(dst, vreinterpretq_u64_u32(vzip1q_u32(low, high)));
  if (four) {
    store_quads(dst + pair_stride, vreinterpretq_u64_u32(vzip2q_u32(low, high)));
  }
}

// For lines whose stride is 1.
template <typename S>
void quads_across(const Lines<S>& lines) {
  const int64_t count = lines.count, step = lines.depth_stride, pair_stride = lines.pair_stride;
  for (int64_t k = 0; k < lines.depth; k += 4) {
    const int64_t depth = lines.depth - k;
    const auto* src = lines.src + k * step;
    float* dst = lines.dst + k / 4 * lines.quad_stride;
    int64_t i = 0;
    uint16x4_t halves[4];
    if (depth >= 4) {
      for (; i + 4 <= count; i += 4, dst += 2 * pair_stride) {
        CPUACCEL_UNROLL
        for (int l = 0; l < 4; ++l) {
          halves[l] = S::load4(src + i + l * step);
        }
        store_turned(dst, pair_stride, halves, true);
      }
    }
    for (; i < count; i += 4, dst += 2 * pair_stride) {
      CPUACCEL_UNROLL
      for (int l = 0; l < 4; ++l) {
        halves[l] = vdup_n_u16(0);
        if (l < depth) {
          halves[l] = across<S>(src + i + l * step, count - i);
        }
      }
      store_turned(dst, pair_stride, halves, i + 2 < count);
    }
  }
}

template <typename S>
void quads_of(const Lines<S>& lines) {
  lines.stride == 1 && lines.depth_stride != 1 ? quads_across<S>(lines) : quads_along<S>(lines);
}

// Packs row by row in pairs, not quads, with zeros up to a multiple of `unit` pairs.
template <typename S>
void plain_rows_of(const LoadCall& call, int64_t first_row, int64_t unit) {
  const auto* src = static_cast<const typename S::Element*>(call.src);
  for (int64_t i = first_row; i < call.rows; ++i) {
    for (int64_t k = 0; k < call.columns; k += 8) {
      const int64_t count = call.columns - k < 8 ? call.columns - k : 8;
      const auto* at = src + i * call.row_stride + k * call.column_stride;
      const float32x4_t pairs =
          vreinterpretq_f32_u16(along<S>(at, call.column_stride, call.columns - k));
      float* dst = call.dst + i * call.stride + k / 2;
      if (const int64_t written = ((count + 1) / 2 + unit - 1) / unit * unit; written == 4) {
        vst1q_f32(dst, pairs);
      } else {
        float some[4];
        vst1q_f32(some, pairs);
        for (int64_t j = 0; j < written; ++j) {
          dst[j] = some[j];
        }
      }
    }
  }
}

template <typename S>
void row_quads_of(const LoadCall& call) {
  const int64_t paired = call.rows / 2 * 2;
  quads_of<S>({static_cast<const typename S::Element*>(call.src), paired, call.row_stride,
               call.columns, call.column_stride, call.dst, 2 * call.stride, 4});
  plain_rows_of<S>(call, paired, 2);
}

template <typename S>
void panel_quads_of(const LoadCall& call, int64_t nr) {
  const auto* src = static_cast<const typename S::Element*>(call.src);
  const int64_t quads = (call.rows + 3) / 4;
  for (int64_t n = 0; n < call.columns; n += nr) {
    const int64_t count = call.columns - n < nr ? call.columns - n : nr;
    float* panel = call.dst + n * 2 * quads;
    quads_of<S>({src + n * call.column_stride, count, call.column_stride, call.rows,
                 call.row_stride, panel, 4, 2 * nr});
    for (int64_t j = (count + 1) / 2 * 2; j < nr; j += 2) {
      for (int64_t q = 0; q < quads; ++q) {
        store_quads(panel + q * 2 * nr + 2 * j, vdupq_n_u64(0));
      }
    }
  }
}

void plain_rows(const LoadCall& call) {
  call.type == DataType::f32 ? plain_rows_of<HalvesOfF32>(call, 0, 1)
                             : plain_rows_of<HalvesOfBf16>(call, 0, 1);
}

void row_quads(const LoadCall& call) {
  call.type == DataType::f32 ? row_quads_of<HalvesOfF32>(call) : row_quads_of<HalvesOfBf16>(call);
}

void panel_quads(const LoadCall& call, int64_t nr) {
  call.type == DataType::f32 ? panel_quads_of<HalvesOfF32>(call, nr)
                             : panel_quads_of<HalvesOfBf16>(call, nr);
}

}  // namespace
}  // namespace cpuaccel::kernels
