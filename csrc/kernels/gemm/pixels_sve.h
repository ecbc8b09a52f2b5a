// pixels.h (rows of A by pointers) with SVE vectors of any length. Included by ISA sources only.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "kernels/gemm/kernels.h"
#include "kernels/gemm/sve.h"
#include "kernels/gemm/unroll.h"
#include "kernels/inline.h"

namespace cpuaccel::kernels {
namespace {

struct SvePixels {
  template <int kRows, int kVectors>
  static void run(const GemmPixelsCall& call, int64_t row, std::span<const char> next) {
    from_start<kRows, kVectors>(call, row, next, std::make_index_sequence<kRows * kVectors>());
  }

 private:
  // The address of a row's sums for vector kVector, and the mask of its columns.
  template <size_t kVector>
  CPUACCEL_INLINE static float* at(const GemmPixelsCall& call, int64_t row) {
    return call.c + row * call.c_stride + static_cast<int64_t>(kVector) * SveFloats::lanes();
  }
  template <int kVectors, size_t kVector>
  CPUACCEL_INLINE static svbool_t mask(const GemmPixelsCall& call) {
    return kVector < kVectors - 1
               ? svptrue_b32()
               : svwhilelt_b32(static_cast<int64_t>(kVector) * SveFloats::lanes(), call.n);
  }

  template <int kVectors, size_t kVector>
  CPUACCEL_INLINE static svfloat32_t start(const GemmPixelsCall& call, int64_t row) {
    const svbool_t some = mask<kVectors, kVector>(call);
    if (call.add) {
      return svld1_f32(some, at<kVector>(call, row));
    }
    return call.bias != nullptr ? svld1_vnum_f32(some, call.bias, kVector) : svdup_n_f32(0.0f);
  }

  template <int kRows, int kVectors, size_t... kSum>
  CPUACCEL_INLINE static void from_start(const GemmPixelsCall& call, int64_t row,
                                         std::span<const char> next,
                                         std::index_sequence<kSum...> numbers) {
    sums_of<kRows, kVectors>(
        call, row, next, numbers,
        start<kVectors, kSum % kVectors>(call, row + static_cast<int64_t>(kSum / kVectors))...);
  }

  template <int kRows, int kVectors, size_t... kSum, typename... Sums>
  CPUACCEL_INLINE static void sums_of(const GemmPixelsCall& call, int64_t row,
                                      std::span<const char> next,
                                      std::index_sequence<kSum...> /*numbers*/, Sums... sums) {
    constexpr int64_t kLine = 64;
    const int64_t lines = static_cast<int64_t>(next.size()) / kLine;
    const char* ahead = next.data();
    const float* src[kRows];
    CPUACCEL_UNROLL
    for (int i = 0; i < kRows; ++i) {
      src[i] = call.src[row + i];
    }
    const float* panel = call.panel;
    for (int64_t k = 0; k < call.k; ++k, panel += SveFloats::kVectors * SveFloats::lanes()) {
      const int64_t offset = call.offsets[k];
      __builtin_prefetch(ahead, 0, 2);
      ahead += k < lines ? kLine : 0;
      const svfloat32_t b0 = SveFloats::F32::load(panel, 0);
      const svfloat32_t b1 = kVectors > 1 ? SveFloats::F32::load(panel, 1) : b0;
      const svfloat32_t b2 = kVectors > 2 ? SveFloats::F32::load(panel, 2) : b0;
      (sve_accumulate(sums, svdup_n_f32(src[kSum / kVectors][offset]),
                      sve_pick<kSum % kVectors>(b0, b1, b2)),
       ...);
    }
    (svst1_f32(mask<kVectors, kSum % kVectors>(call),
               at<kSum % kVectors>(call, row + static_cast<int64_t>(kSum / kVectors)), sums),
     ...);
  }
};

// Splits rows evenly, as in tile.h.
void sve_pixels(const GemmPixelsCall& call) {
  const int64_t count = (call.m + SveFloats::kRows - 1) / SveFloats::kRows;
  const int64_t least = call.m / count, larger = call.m % count;
  auto* const small = sve_instance<SvePixels>(least, call.n);
  auto* const large = larger == 0 ? small : sve_instance<SvePixels>(least + 1, call.n);
  int64_t row = 0;
  std::span<const char> next = call.next;
  for (int64_t i = 0; i < count; ++i) {
    const auto now = next.first(std::min(next.size(), static_cast<size_t>(call.k) * 64));
    (i < larger ? large : small)(call, row, now);
    next = next.subspan(now.size());
    row += i < larger ? least + 1 : least;
  }
}

}  // namespace
}  // namespace cpuaccel::kernels
