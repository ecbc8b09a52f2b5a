// Dot products of four bytes by AVX-VNNI, for cores without AVX-512. See avx2.h.
#pragma once

#include "kernels/dot4/avx2.h"

namespace cpuaccel::kernels {
namespace {

struct AvxVnniDot4 : Avx2Bytes {
  // Two vpdpbusd start in a cycle and take five, so eight sums keep the ports busy for 4 of 5
  // cycles. Twelve keep them busy. Six pixels and four make up any multiple of eight.
  static constexpr int kPixels = 6;
  static constexpr int kRestPixels = 4;
  static constexpr int kPixelsOfHalf = 8;
  CPUACCEL_INLINE static Int dot(Int acc, Int taps, Int weights) {
    return _mm256_dpbusd_avx_epi32(acc, taps, weights);
  }
};

}  // namespace
}  // namespace cpuaccel::kernels
