// Dot products of four bytes by AVX-VNNI, for cores without AVX-512. See avx2.h.
#pragma once

#include "kernels/dot4/avx2.h"

namespace cpuaccel::kernels {
namespace {

struct AvxVnniDot4 : Avx2Bytes {
  CPUACCEL_INLINE static Int dot(Int acc, Int taps, Int weights) {
    return _mm256_dpbusd_avx_epi32(acc, taps, weights);
  }
};

}  // namespace
}  // namespace cpuaccel::kernels
