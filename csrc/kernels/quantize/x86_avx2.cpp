#include <immintrin.h>

#include <cstring>

#include "kernels/quantize/quantize.h"

namespace cpuaccel::kernels {
namespace {

constexpr int64_t kBytes = 32;

struct Quantizer {
  __m256 inverse_scale, before;
  __m256i after;    // 32 bits each
  __m256i offset;   // 16 bits each
  __m256i flipped;  // of bytes

  explicit Quantizer(const QuantizeBy& by)
      : inverse_scale(_mm256_set1_ps(by.inverse_scale)),
        before(_mm256_set1_ps(by.before)),
        after(_mm256_set1_epi32(by.after)),
        offset(_mm256_set1_epi16(by.offset)),
        flipped(_mm256_set1_epi8(static_cast<char>(by.offset))) {}

  // min returns the limit for a NaN. The conversion gives the smallest int32 below the limit.
  __m256i rounded(__m256 real) const {
    const __m256 value = _mm256_fmadd_ps(real, inverse_scale, before);
    const __m256 limited = _mm256_min_ps(value, _mm256_set1_ps(kQuantizeLimit));
    return _mm256_add_epi32(_mm256_cvtps_epi32(limited), after);
  }
  __m256i words(__m256 a, __m256 b) const {
    return _mm256_adds_epi16(_mm256_packs_epi32(rounded(a), rounded(b)), offset);
  }

  // The packs interleave the 128-bit lanes; the permutation restores the order of groups of four
  // bytes.
  __m256i operator()(__m256 a, __m256 b, __m256 c, __m256 d) const {
    const __m256i bytes = _mm256_permutevar8x32_epi32(_mm256_packus_epi16(words(a, b), words(c, d)),
                                                      _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
    return _mm256_xor_si256(bytes, flipped);
  }
};

struct Plain {
  const float* src;
  __m256 operator()(int64_t i) const { return _mm256_loadu_ps(src + i); }
  __m256 operator()(int64_t i, __m256i lanes) const { return _mm256_maskload_ps(src + i, lanes); }
};

struct Scaled {
  Plain src, factors;
  __m256 operator()(int64_t i) const { return _mm256_mul_ps(src(i), factors(i)); }
  __m256 operator()(int64_t i, __m256i lanes) const {
    return _mm256_mul_ps(src(i, lanes), factors(i, lanes));
  }
};

// Mask of the first `count` of eight lanes.
__m256i lanes(int64_t count) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(count)),
                            _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

template <typename Source>
void quantize_all(const Source& source, uint8_t* dst, int64_t count, const Quantizer& quantize) {
  if (count >= kBytes) {
    const auto block = [&](int64_t i) {
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(dst + i),
                          quantize(source(i), source(i + 8), source(i + 16), source(i + 24)));
    };
    for (int64_t i = 0; i < count - kBytes; i += kBytes) {
      block(i);
    }
    block(count - kBytes);  // may overlap the block before
    return;
  }
  const auto some = [&](int64_t i) { return source(i, lanes(count - i)); };
  alignas(kBytes) uint8_t result[kBytes];
  _mm256_store_si256(reinterpret_cast<__m256i*>(result),
                     quantize(some(0), some(8), some(16), some(24)));
  std::memcpy(dst, result, static_cast<size_t>(count));
}

}  // namespace

void quantize_x86_avx2(const float* src, uint8_t* dst, int64_t count, const QuantizeBy& by) {
  quantize_all(Plain{src}, dst, count, Quantizer(by));
}

void quantize_scaled_x86_avx2(const float* src, const float* factors, uint8_t* dst, int64_t count,
                              const QuantizeBy& by) {
  quantize_all(Scaled{{src}, {factors}}, dst, count, Quantizer(by));
}

}  // namespace cpuaccel::kernels
