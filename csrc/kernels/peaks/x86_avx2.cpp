#include "kernels/byte_vectors/avx2.h"
#include "kernels/peaks/loops.h"

namespace cpuaccel::kernels {
namespace {

// Ten sums fit into sixteen registers and hide a latency of five cycles at two instructions per
// cycle.
constexpr int kSums = 10;

// Repeats sum += multiply(a, b).
template <typename Multiply>
int64_t repeat_int8(int64_t iterations, int64_t products, __m256i a, const Multiply& multiply) {
  const __m256i b = opaque(a);
  return repeat<kSums, __m256i>(iterations, products, [=](__m256i sum) mutable {
    CPUACCEL_OPAQUE(CPUACCEL_VECTOR, a);
    return _mm256_add_epi32(sum, multiply(a, b));
  });
}

}  // namespace

int64_t peak_int8_x86_avx2(int64_t iterations) {
  return repeat_int8(iterations, 16, _mm256_set1_epi16(1),
                     [](__m256i a, __m256i b) { return _mm256_madd_epi16(a, b); });
}

int64_t peak_int8_saturating_x86_avx2(int64_t iterations) {
  const __m256i ones = opaque(_mm256_set1_epi16(1));
  return repeat_int8(iterations, 32, _mm256_set1_epi8(1), [ones](__m256i a, __m256i b) {
    return _mm256_madd_epi16(_mm256_maddubs_epi16(a, b), ones);
  });
}

int64_t peak_int8_low_x86_avx2(int64_t iterations) {
  const __m256i ones = opaque(_mm256_set1_epi16(1));
  return repeat_int8(iterations, 64, _mm256_set1_epi8(1), [ones](__m256i a, __m256i b) {
    const __m256i first = _mm256_maddubs_epi16(a, b);
    CPUACCEL_OPAQUE(CPUACCEL_VECTOR, a);  // keeps the compiler from reusing `first`
    return _mm256_madd_epi16(_mm256_add_epi16(first, _mm256_maddubs_epi16(a, b)), ones);
  });
}

int64_t peak_fp32_x86_avx2(int64_t iterations) {
  const __m256 a = opaque(_mm256_set1_ps(1.0f)), b = opaque(_mm256_setzero_ps());
  return repeat<kSums, __m256>(iterations, 8,
                               [=](__m256 sum) { return _mm256_fmadd_ps(a, b, sum); });
}

void peak_read_x86_avx2(const std::byte* src, std::byte* /*dst*/, int64_t bytes) {
  read_by<Bytes32>(src, bytes);
}

void peak_copy_x86_avx2(const std::byte* src, std::byte* dst, int64_t bytes) {
  copy_by<Bytes32>(src, dst, bytes);
}

}  // namespace cpuaccel::kernels
