// SVE vector class of gemm, for any vector length: panels of three vectors. Included by ISA sources
// only.
//
// SVE types have no size, so that there are no arrays of them. A tile's sums are a parameter pack
// of inlined functions, row by row.
#pragma once

#include <arm_sve.h>

#include <cstddef>
#include <cstdint>
#include <utility>

#include "kernels/gemm/kernels.h"
#include "kernels/gemm/start.h"
#include "kernels/inline.h"

namespace cpuaccel::kernels {
namespace {

struct SveFloats {
  static constexpr int kVectors = 3;
  static constexpr int kRows = 8;  // 24 accumulators, 3 vectors of B: five registers are left for A

  CPUACCEL_INLINE static int64_t lanes() { return static_cast<int64_t>(svcntw()); }

  // Loads elements of B as vectors of floats, `vector` vectors after src. Lanes outside of `some`
  // are zeros.
  struct F32 {
    using Element = float;
    CPUACCEL_INLINE static svfloat32_t load(const float* src, int64_t vector,
                                            svbool_t some = svptrue_b32()) {
      return svld1_vnum_f32(some, src, vector);
    }
  };
  struct Bf16 {
    using Element = uint16_t;
    CPUACCEL_INLINE static svfloat32_t load(const uint16_t* src, int64_t vector,
                                            svbool_t some = svptrue_b32()) {
      const svuint32_t halves = svld1uh_vnum_u32(some, src, vector);
      return svreinterpret_f32_u32(svlsl_n_u32_x(svptrue_b32(), halves, 16));
    }
  };
  struct F16 {
    using Element = uint16_t;
    CPUACCEL_INLINE static svfloat32_t load(const uint16_t* src, int64_t vector,
                                            svbool_t some = svptrue_b32()) {
      const svuint32_t halves = svld1uh_vnum_u32(some, src, vector);
      return svcvt_f32_f16_x(svptrue_b32(), svreinterpret_f16_u32(halves));
    }
  };
};

// A zero; expanded to a pack, the start of the sums.
template <size_t>
CPUACCEL_INLINE svfloat32_t sve_zero() {
  return svdup_n_f32(0.0f);
}

// sum += a * b, in the register of sum, as in avx2.h.
CPUACCEL_INLINE void sve_accumulate(svfloat32_t& sum, svfloat32_t a, svfloat32_t b) {
  asm("fmla %0.s, %1/m, %2.s, %3.s" : "+w"(sum) : "Upl"(svptrue_b32()), "w"(a), "w"(b));
}

// Vector number kVector of three.
template <size_t kVector>
CPUACCEL_INLINE svfloat32_t sve_pick(svfloat32_t v0, svfloat32_t v1, svfloat32_t v2) {
  return kVector == 0 ? v0 : kVector == 1 ? v1 : v2;
}

// Adds up neighbors, of which there are kPairs pairs, and calls then(...) with the sums.
template <size_t kPairs, typename Then, typename... Others>
CPUACCEL_INLINE void sve_join(const Then& then, svfloat32_t first, svfloat32_t second,
                              Others... others) {
  const svfloat32_t sum = svadd_f32_x(svptrue_b32(), first, second);
  if constexpr (kPairs > 1) {
    sve_join<kPairs - 1>(then, others..., sum);
  } else {
    then(others..., sum);
  }
}

// Writes alpha * sum plus its start to C, for the given row and vector.
template <int kVectors, size_t kVector>
CPUACCEL_INLINE void sve_store_sum(const TileCall& call, int64_t row, svfloat32_t sum) {
  const int64_t column = static_cast<int64_t>(kVector) * SveFloats::lanes();
  const svbool_t all = svptrue_b32();
  const svbool_t mask = kVector == kVectors - 1 ? svwhilelt_b32(column, call.n) : all;
  float* to = call.c + row * call.c_stride + column;
  const GemmStart from = with_zeros(call.from);
  const svfloat32_t before =
      svadd_f32_x(mask, svld1_f32(mask, from.data + row * from.stride + column),
                  svld1_f32(mask, from.bias + column));
  svst1_f32(mask, to, svmla_n_f32_x(all, before, sum, call.alpha));
}

// The instance of Family::run<kRows, kVectors> for that many rows, as narrow as the columns allow.
template <typename Family, int kRows = SveFloats::kRows, int kVectors = SveFloats::kVectors>
CPUACCEL_INLINE auto* sve_instance(int64_t rows, int64_t columns) {
  if constexpr (kVectors > 1) {
    if (columns <= (kVectors - 1) * SveFloats::lanes()) {
      return sve_instance<Family, kRows, kVectors - 1>(rows, columns);
    }
  }
  if constexpr (kRows > 1) {
    if (rows < kRows) {
      return sve_instance<Family, kRows - 1, kVectors>(rows, columns);
    }
  }
  return &Family::template run<kRows, kVectors>;
}

}  // namespace
}  // namespace cpuaccel::kernels
