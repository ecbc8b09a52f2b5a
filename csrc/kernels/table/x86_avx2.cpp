#include <immintrin.h>

#include "kernels/table/shuffle.h"

namespace cpuaccel::kernels {
namespace {

struct Avx2 {
  using Type = __m256i;
  static constexpr int kBytes = 32;
  static Type load(const uint8_t* src) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(src));
  }
  static void store(uint8_t* dst, Type value) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(dst), value);
  }
  static Type broadcast(const uint8_t* src) {
    return _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(src)));
  }
  static Type zero() { return _mm256_setzero_si256(); }
  static Type fill(int8_t value) { return _mm256_set1_epi8(value); }
  static Type exclusive_or(Type a, Type b) { return _mm256_xor_si256(a, b); }
  static Type shuffle(Type entries, Type index) { return _mm256_shuffle_epi8(entries, index); }
  static Type subtract(Type a, Type b) { return _mm256_subs_epi8(a, b); }
  static void keep_order(Type& value) { __asm__("" : "+x"(value)); }
};

}  // namespace

void table_x86_avx2(const uint8_t* src, uint8_t* dst, int64_t count, const uint8_t* table) {
  table_by_shuffles<Avx2, 4>(src, dst, count, table);
}

}  // namespace cpuaccel::kernels
