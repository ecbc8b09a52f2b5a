// Converts qgemm's sums to results, twelve columns at a time. Included by Arm's sources only.
#pragma once

#include <arm_neon.h>

#include <cstdint>
#include <cstring>

#include "kernels/conv_activation.h"
#include "kernels/float_vectors/exp_neon.h"
#include "kernels/gemm/unroll.h"
#include "kernels/inline.h"
#include "kernels/qgemm/kernels.h"

namespace cpuaccel::kernels {
namespace {

constexpr int kStoreVectors = 3;
constexpr int64_t kStoreColumns = 4 * kStoreVectors;

// How each dst type stores the first `count` elements of three vectors.
struct RealStore {
  using Element = float;
  explicit RealStore(const ConvDst& /*dst*/) {}
  CPUACCEL_INLINE void operator()(float* to, const float32x4_t* real, int64_t count) const {
    CPUACCEL_UNROLL
    for (int j = 0; j < kStoreVectors; ++j) {
      if (count >= kStoreColumns) [[likely]] {
        vst1q_f32(to + 4 * j, real[j]);
      } else {
        Floats4::store(to + 4 * j, real[j], Floats4::mask(count - 4 * j));
      }
    }
  }
};

// Halves converts four floats to bf16.
template <typename Halves>
struct Bf16Store {
  using Element = uint16_t;
  explicit Bf16Store(const ConvDst& /*dst*/) {}
  CPUACCEL_INLINE void operator()(uint16_t* to, const float32x4_t* real, int64_t count) const {
    uint16_t some[kStoreColumns];
    uint16_t* at = count >= kStoreColumns ? to : some;
    CPUACCEL_UNROLL
    for (int j = 0; j < kStoreVectors; ++j) {
      Halves::store(at + 4 * j, real[j]);
    }
    if (count < kStoreColumns) {
      std::memcpy(to, some, static_cast<size_t>(count) * sizeof(*to));
    }
  }
};

// Clamps before rounding, which gives the same result because the limits are integers. Rounds by
// adding 3 * 2^22, which leaves the integer in the lowest bits. A conversion would take twice the
// time.
struct ByteStore {
  using Element = uint8_t;
  float32x4_t low, high;
  uint8x16_t zero_point;
  explicit ByteStore(const ConvDst& dst)
      : low(vdupq_n_f32(static_cast<float>(dst.min - dst.zero_point))),
        high(vdupq_n_f32(static_cast<float>(dst.max - dst.zero_point))),
        zero_point(vdupq_n_u8(static_cast<uint8_t>(dst.zero_point ^ dst.flip()))) {}

  CPUACCEL_INLINE uint16x8_t rounded(float32x4_t real) const {
    const float32x4_t limited = vminnmq_f32(vmaxnmq_f32(real, low), high);
    return vreinterpretq_u16_f32(vaddq_f32(limited, vdupq_n_f32(0x3p22f)));
  }
  CPUACCEL_INLINE void operator()(uint8_t* to, const float32x4_t* real, int64_t count) const {
    static_assert(kStoreVectors == 3);
    const uint16x8_t first = vuzp1q_u16(rounded(real[0]), rounded(real[1]));
    const uint16x8_t last = rounded(real[2]);
    const uint8x16_t low_bytes =
        vuzp1q_u8(vreinterpretq_u8_u16(first), vreinterpretq_u8_u16(vuzp1q_u16(last, last)));
    const uint8x16_t bytes = vaddq_u8(low_bytes, zero_point);
    if (count >= kStoreColumns) [[likely]] {
      vst1_u8(to, vget_low_u8(bytes));
      vst1q_lane_u32(reinterpret_cast<uint32_t*>(to + 8), vreinterpretq_u32_u8(bytes), 2);
      return;
    }
    uint8_t some[16];
    vst1q_u8(some, bytes);
    std::memcpy(to, some, static_cast<size_t>(count));
  }
};

// `width`: distance from a row of sums to the next.
void store_sums(const QgemmStore& s, int64_t width) {
  for (int64_t column = 0; column < s.n; column += 4) {
    const int64_t n = s.n0 + column;
    const int64_t count = s.n - column;
    const int32x4_t of_column = vld1q_s32(s.call.weights->column_sums + n);
    for (int64_t i = 0; i < s.m; ++i) {
      const int32x4_t sum = vld1q_s32(s.sums + i * width + column);
      const int32x4_t acc = vmlaq_n_s32(sum, of_column, s.offsets[i]);
      auto* to = static_cast<float*>(s.call.dst.data) + (s.m0 + i) * s.call.dst.row_stride + n;
      Floats4::store(to, vreinterpretq_f32_s32(acc), Floats4::mask(count));
    }
  }
}

template <bool kWhole>
CPUACCEL_INLINE float32x4_t load_numbers(const float* from, int64_t count) {
  return kWhole ? vld1q_f32(from) : Floats4::load(from, Floats4::mask(count));
}

// Stores columns [column, column + 12) of all rows; kWhole if all of them exist.
template <bool kScaled, bool kWhole, typename Store>
CPUACCEL_INLINE void store_columns(const QgemmStore& s, const ConvDst& conv, const Store& store,
                                   int64_t width, int64_t column) {
  const QgemmDst& dst = s.call.dst;
  const int64_t n = s.n0 + column, count = kWhole ? kStoreColumns : s.n - column;
  // Copies, because the compiler must assume that stored bytes may alias the originals.
  const int64_t rows = s.m, row_stride = dst.row_stride;
  const int32_t* row_sums = s.sums + column;
  const int32_t* offsets = s.offsets;
  const float* row_scales = s.scales;
  const int32_t* column_sums = s.call.weights->column_sums + n;
  int32_t offset = 0;
  int32x4_t added[kStoreVectors];
  float32x4_t scales[kStoreVectors], bias[kStoreVectors];
  CPUACCEL_UNROLL
  for (int j = 0; j < kStoreVectors; ++j) {
    added[j] = vdupq_n_s32(0);
    scales[j] = load_numbers<kWhole>(dst.scales + n + 4 * j, count - 4 * j);
    bias[j] = dst.bias == nullptr ? vdupq_n_f32(0.0f)
                                  : load_numbers<kWhole>(dst.bias + n + 4 * j, count - 4 * j);
  }
  auto* to = static_cast<typename Store::Element*>(dst.data) + s.m0 * dst.row_stride + n;
  for (int64_t i = 0; i < rows; ++i, to += row_stride, row_sums += width) {
    // Usually all rows have the same zero point.
    if (offsets[i] != offset) [[unlikely]] {
      offset = offsets[i];
      CPUACCEL_UNROLL
      for (int j = 0; j < kStoreVectors; ++j) {
        added[j] = vmulq_n_s32(vld1q_s32(column_sums + 4 * j), offset);
      }
    }
    float32x4_t real[kStoreVectors];
    CPUACCEL_UNROLL
    for (int j = 0; j < kStoreVectors; ++j) {
      const int32x4_t sum = vld1q_s32(row_sums + 4 * j);
      const float32x4_t acc = vcvtq_f32_s32(vaddq_s32(sum, added[j]));
      real[j] = vfmaq_f32(bias[j], kScaled ? vmulq_n_f32(acc, row_scales[i]) : acc, scales[j]);
    }
    apply_activation<ExpFloats4, kStoreVectors>(conv, real);
    store(to, real, count);
  }
}

template <typename Store, bool kScaled>
void store_all_columns(const QgemmStore& s, int64_t width) {
  const ConvDst conv = s.conv;
  const Store store(conv);
  int64_t column = 0;
  for (; column + kStoreColumns <= s.n; column += kStoreColumns) {
    store_columns<kScaled, true>(s, conv, store, width, column);
  }
  if (column < s.n) {
    store_columns<kScaled, false>(s, conv, store, width, column);
  }
}

template <typename Store>
void store_as(const QgemmStore& s, int64_t width) {
  s.scales != nullptr ? store_all_columns<Store, true>(s, width)
                      : store_all_columns<Store, false>(s, width);
}

template <typename Halves>
void store_results(const QgemmStore& s, int64_t width) {
  switch (s.call.dst.type) {
    case DataType::s32:
      return store_sums(s, width);
    case DataType::f32:
      return store_as<RealStore>(s, width);
    case DataType::bf16:
      return store_as<Bf16Store<Halves>>(s, width);
    default:
      return store_as<ByteStore>(s, width);
  }
}

}  // namespace
}  // namespace cpuaccel::kernels
