// rows.h (gemm for few rows of A) with SVE vectors of any length. Included by ISA sources only.
#pragma once

#include <arm_sve.h>

#include <cstddef>
#include <cstdint>
#include <utility>

#include "kernels/gemm/kernels.h"
#include "kernels/gemm/sve.h"
#include "kernels/gemm/unroll.h"
#include "kernels/inline.h"

namespace cpuaccel::kernels {
namespace {

// Vector number kNumber of those given.
template <size_t kNumber, typename... Others>
CPUACCEL_INLINE svfloat32_t& sve_nth(svfloat32_t& first, Others&... others) {
  if constexpr (kNumber == 0) {
    return first;
  } else {
    return sve_nth<kNumber - 1>(others...);
  }
}

// kDepth rows of B at once. Value l * kRows + i of A is for row l of B and row i of C.
template <typename E, int kRows, int kDepth>
struct SveRows {
  static_assert(kRows <= 6);
  static void add(const RowsCall& call, int64_t k) {
    with_values(call, k, std::make_index_sequence<kRows * kDepth>());
  }

 private:
  template <size_t... kValue>
  CPUACCEL_INLINE static void with_values(const RowsCall& call, int64_t k,
                                          std::index_sequence<kValue...> numbers) {
    loop(call, k, numbers,
         svdup_n_f32(call.alpha * call.a[static_cast<int64_t>(kValue % kRows) * call.a_stride + k +
                                         static_cast<int64_t>(kValue / kRows)])...);
  }

  template <size_t... kValue, typename... Values>
  CPUACCEL_INLINE static void loop(const RowsCall& call, int64_t k,
                                   std::index_sequence<kValue...> /*numbers*/, Values... a) {
    const typename E::Element* b[kDepth];
    CPUACCEL_UNROLL
    for (int l = 0; l < kDepth; ++l) {
      b[l] = static_cast<const typename E::Element*>(call.b) + (k + l) * call.b_stride;
    }
    for (int64_t n = 0; n < call.n; n += SveFloats::lanes()) {
      const svbool_t some = svwhilelt_b32(n, call.n);
      svfloat32_t c0 = of_c<0>(call, n, some), c1 = of_c<1>(call, n, some);
      svfloat32_t c2 = of_c<2>(call, n, some), c3 = of_c<3>(call, n, some);
      svfloat32_t c4 = of_c<4>(call, n, some), c5 = of_c<5>(call, n, some);
      (sve_accumulate(sve_nth<kValue % kRows>(c0, c1, c2, c3, c4, c5), a,
                      E::load(b[kValue / kRows] + n, 0, some)),
       ...);
      to_c<0>(call, n, some, c0);
      to_c<1>(call, n, some, c1);
      to_c<2>(call, n, some, c2);
      to_c<3>(call, n, some, c3);
      to_c<4>(call, n, some, c4);
      to_c<5>(call, n, some, c5);
    }
  }

  template <int kRow>
  CPUACCEL_INLINE static svfloat32_t of_c(const RowsCall& call, int64_t n, svbool_t some) {
    if constexpr (kRow < kRows) {
      return svld1_f32(some, call.c + kRow * call.c_stride + n);
    } else {
      return svdup_n_f32(0.0f);
    }
  }
  template <int kRow>
  CPUACCEL_INLINE static void to_c(const RowsCall& call, int64_t n, svbool_t some, svfloat32_t v) {
    if constexpr (kRow < kRows) {
      svst1_f32(some, call.c + kRow * call.c_stride + n, v);
    }
  }
};

template <typename E, int kRows>
void sve_rows_of(const RowsCall& call) {
  constexpr int kDepth = kRows == 1 ? 8 : 12 / kRows;  // as in rows.h
  int64_t k = 0;
  for (; k + kDepth <= call.k; k += kDepth) {
    SveRows<E, kRows, kDepth>::add(call, k);
  }
  for (; k < call.k; ++k) {
    SveRows<E, kRows, 1>::add(call, k);
  }
}

template <typename E, int kRows = int{kRowsMost}>
void sve_rows_elements(const RowsCall& call) {
  if constexpr (kRows > 1) {
    if (call.m < kRows) {
      sve_rows_elements<E, kRows - 1>(call);
      return;
    }
  }
  sve_rows_of<E, kRows>(call);
}

void sve_rows(const RowsCall& call) {
  switch (call.type) {
    case DataType::f32:
      return sve_rows_elements<SveFloats::F32>(call);
    case DataType::bf16:
      return sve_rows_elements<SveFloats::Bf16>(call);
    case DataType::f16:
      return sve_rows_elements<SveFloats::F16>(call);
    default:
      __builtin_unreachable();
  }
}

}  // namespace
}  // namespace cpuaccel::kernels
