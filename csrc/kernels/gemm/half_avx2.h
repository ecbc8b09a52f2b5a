// Eight elements of any type to floats and back, and blocks of them. AVX2 and F16C.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "kernels/gemm/half.h"
#include "kernels/gemm/kernels.h"
#include "kernels/inline.h"

namespace cpuaccel::kernels {
namespace {

struct F32Elements {
  using Element = float;
  CPUACCEL_INLINE static __m256 load8(const float* src) { return _mm256_loadu_ps(src); }
  CPUACCEL_INLINE static float load1(const float* src) { return *src; }
  CPUACCEL_INLINE static void store8(float* dst, __m256 v) { _mm256_storeu_ps(dst, v); }
  CPUACCEL_INLINE static void store1(float* dst, float v) { *dst = v; }
};

struct Bf16Elements {
  using Element = uint16_t;
  CPUACCEL_INLINE static __m256 load8(const uint16_t* src) {
    const __m128i halves = _mm_loadu_si128(reinterpret_cast<const __m128i*>(src));
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(halves), 16));
  }
  CPUACCEL_INLINE static float load1(const uint16_t* src) { return bf16_to_float(*src); }
  CPUACCEL_INLINE static void store8(uint16_t* dst, __m256 v) {
    const __m256i bits = _mm256_castps_si256(v);
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    const __m256i rounded =
        _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7fff)), odd);
    const __m256 nan = _mm256_cmp_ps(v, v, _CMP_UNORD_Q);
    const __m256i top = _mm256_srli_epi32(
        _mm256_blendv_epi8(rounded, _mm256_set1_epi32(0x7fc00000), _mm256_castps_si256(nan)), 16);
    _mm_storeu_si128(
        reinterpret_cast<__m128i*>(dst),
        _mm_packus_epi32(_mm256_castsi256_si128(top), _mm256_extracti128_si256(top, 1)));
  }
  CPUACCEL_INLINE static void store1(uint16_t* dst, float v) { *dst = float_to_bf16(v); }
};

struct F16Elements {
  using Element = uint16_t;
  CPUACCEL_INLINE static __m256 load8(const uint16_t* src) {
    return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(src)));
  }
  CPUACCEL_INLINE static float load1(const uint16_t* src) { return f16_to_float(*src); }
  CPUACCEL_INLINE static void store8(uint16_t* dst, __m256 v) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(dst),
                     _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
  }
  CPUACCEL_INLINE static void store1(uint16_t* dst, float v) { *dst = float_to_f16(v); }
};

// The first `count` elements, 1 to 8, and zeros.
template <typename E>
CPUACCEL_INLINE __m256 load_part(const typename E::Element* src, int64_t count) {
  if (count == 8) {
    return E::load8(src);
  }
  alignas(32) typename E::Element elements[8] = {};
  for (int64_t i = 0; i < count; ++i) {
    elements[i] = src[i];
  }
  return E::load8(elements);
}

// dst[0 .. 4) = the sums of the lanes of a, b, c and d.
CPUACCEL_INLINE void store_lane_sums(float* dst, __m256 a, __m256 b, __m256 c, __m256 d) {
  const __m256 sums = _mm256_hadd_ps(_mm256_hadd_ps(a, b), _mm256_hadd_ps(c, d));
  _mm_storeu_ps(dst, _mm_add_ps(_mm256_castps256_ps128(sums), _mm256_extractf128_ps(sums, 1)));
}

// Rows of r become columns.
CPUACCEL_INLINE void transpose8(__m256 (&r)[8]) {
  __m256 t[8], u[8];
  for (int i = 0; i < 8; i += 2) {
    t[i] = _mm256_unpacklo_ps(r[i], r[i + 1]);
    t[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
  }
  for (int i = 0; i < 8; i += 4) {
    u[i] = _mm256_shuffle_ps(t[i], t[i + 2], 0x44);
    u[i + 1] = _mm256_shuffle_ps(t[i], t[i + 2], 0xee);
    u[i + 2] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0x44);
    u[i + 3] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0xee);
  }
  for (int i = 0; i < 4; ++i) {
    r[i] = _mm256_permute2f128_ps(u[i], u[i + 4], 0x20);
    r[i + 4] = _mm256_permute2f128_ps(u[i], u[i + 4], 0x31);
  }
}

template <typename E>
void load_rows(const LoadCall& call) {
  for (int64_t i = 0; i < call.rows; ++i) {
    const auto* src = static_cast<const typename E::Element*>(call.src) + i * call.row_stride;
    float* dst = call.dst + i * call.stride;
    int64_t j = 0;
    for (; j + 8 <= call.columns; j += 8) {
      _mm256_storeu_ps(dst + j, E::load8(src + j));
    }
    for (; j < call.columns; ++j) {
      dst[j] = E::load1(src + j);
    }
  }
}

template <typename E>
void load_strided(const LoadCall& call, int64_t row, int64_t rows, int64_t column,
                  int64_t columns) {
  const auto* src = static_cast<const typename E::Element*>(call.src);
  for (int64_t i = row; i < row + rows; ++i) {
    for (int64_t j = column; j < column + columns; ++j) {
      call.dst[i * call.stride + j] = E::load1(src + i * call.row_stride + j * call.column_stride);
    }
  }
}

// Column stride any, row stride 1.
template <typename E>
void load_columns(const LoadCall& call) {
  const auto* src = static_cast<const typename E::Element*>(call.src);
  const int64_t rows = call.rows / 8 * 8;
  const int64_t columns = call.columns / 8 * 8;
  const auto turn = [&](int64_t i, int64_t j) {
    __m256 block[8];
    for (int l = 0; l < 8; ++l) {
      block[l] = E::load8(src + i + (j + l) * call.column_stride);
    }
    transpose8(block);
    for (int l = 0; l < 8; ++l) {
      _mm256_storeu_ps(call.dst + (i + l) * call.stride + j, block[l]);
    }
  };
  // The longer runs first.
  if (call.rows > call.columns) {
    for (int64_t j = 0; j < columns; j += 8) {
      for (int64_t i = 0; i < rows; i += 8) {
        turn(i, j);
      }
    }
  } else {
    for (int64_t i = 0; i < rows; i += 8) {
      for (int64_t j = 0; j < columns; j += 8) {
        turn(i, j);
      }
    }
  }
  load_strided<E>(call, 0, rows, columns, call.columns - columns);
  load_strided<E>(call, rows, call.rows - rows, 0, call.columns);
}

template <typename E>
void load_elements(const LoadCall& call) {
  if (call.column_stride == 1) {
    load_rows<E>(call);
  } else if (call.row_stride == 1) {
    load_columns<E>(call);
  } else {
    load_strided<E>(call, 0, call.rows, 0, call.columns);
  }
}

// A row goes through all panels before the next: memory is read in runs as long as may be. The CPU
// does not see that the next rows follow, so they are asked for.
template <typename E>
void load_row_panels(const LoadCall& call, int64_t nr) {
  constexpr int64_t kAhead = 8;
  const auto* src = static_cast<const typename E::Element*>(call.src);
  for (int64_t i = 0; i < call.rows; ++i, src += call.row_stride) {
    const bool ahead = i + kAhead < call.rows;
    float* dst = call.dst + i * nr;
    for (int64_t n = 0; n < call.columns; n += nr, dst += call.rows * nr) {
      const int64_t count = call.columns - n < nr ? call.columns - n : nr;
      if (ahead) {
        __builtin_prefetch(src + n + kAhead * call.row_stride, 0, 2);
      }
      int64_t j = 0;
      for (; j + 8 <= count; j += 8) {
        _mm256_storeu_ps(dst + j, E::load8(src + n + j));
      }
      for (; j < count; ++j) {
        dst[j] = E::load1(src + n + j);
      }
      for (; j < nr; ++j) {
        dst[j] = 0.0f;
      }
    }
  }
}

// Panel by panel, 8 rows of it at a time.
template <typename E>
void load_panels(const LoadCall& call, int64_t nr) {
  if (call.column_stride == 1) {
    load_row_panels<E>(call, nr);
    return;
  }
  for (int64_t n = 0; n < call.columns; n += nr) {
    LoadCall panel = call;
    panel.src = static_cast<const typename E::Element*>(call.src) + n * call.column_stride;
    panel.columns = call.columns - n < nr ? call.columns - n : nr;
    panel.dst = call.dst + n * call.rows;
    panel.stride = nr;
    load_elements<E>(panel);
    for (int64_t k = 0; k < (panel.columns < nr ? call.rows : 0); ++k) {
      for (int64_t j = panel.columns; j < nr; ++j) {
        panel.dst[k * nr + j] = 0.0f;
      }
    }
  }
}

template <typename E>
void store_elements(const float* src, int64_t count, void* to) {
  auto* dst = static_cast<typename E::Element*>(to);
  int64_t i = 0;
  for (; i + 8 <= count; i += 8) {
    E::store8(dst + i, _mm256_loadu_ps(src + i));
  }
  for (; i < count; ++i) {
    E::store1(dst + i, src[i]);
  }
}

void load_block(const LoadCall& call) {
  switch (call.type) {
    case GemmType::f32:
      return load_elements<F32Elements>(call);
    case GemmType::bf16:
      return load_elements<Bf16Elements>(call);
    case GemmType::f16:
      return load_elements<F16Elements>(call);
  }
}

void load_panel_block(const LoadCall& call, int64_t nr) {
  switch (call.type) {
    case GemmType::f32:
      return load_panels<F32Elements>(call, nr);
    case GemmType::bf16:
      return load_panels<Bf16Elements>(call, nr);
    case GemmType::f16:
      return load_panels<F16Elements>(call, nr);
  }
}

void store_run(const float* src, int64_t count, void* dst, GemmType type) {
  switch (type) {
    case GemmType::f32:
      return store_elements<F32Elements>(src, count, dst);
    case GemmType::bf16:
      return store_elements<Bf16Elements>(src, count, dst);
    case GemmType::f16:
      return store_elements<F16Elements>(src, count, dst);
  }
}

}  // namespace
}  // namespace cpuaccel::kernels
