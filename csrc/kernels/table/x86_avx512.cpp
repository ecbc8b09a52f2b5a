#include <immintrin.h>

#include "kernels/table/shuffle.h"

namespace cpuaccel::kernels {
namespace {

struct Avx512 {
  using Type = __m512i;
  static constexpr int kBytes = 64;
  static Type load(const uint8_t* src) { return _mm512_loadu_si512(src); }
  static void store(uint8_t* dst, Type value) { _mm512_storeu_si512(dst, value); }
  static Type broadcast(const uint8_t* src) {
    return _mm512_broadcast_i32x4(_mm_loadu_si128(reinterpret_cast<const __m128i*>(src)));
  }
  static Type zero() { return _mm512_setzero_si512(); }
  static Type fill(int8_t value) { return _mm512_set1_epi8(value); }
  static Type exclusive_or(Type a, Type b) { return _mm512_xor_si512(a, b); }
  static Type shuffle(Type entries, Type index) { return _mm512_shuffle_epi8(entries, index); }
  static Type subtract(Type a, Type b) { return _mm512_subs_epi8(a, b); }
  static void keep_order(Type& value) { __asm__("" : "+v"(value)); }
};

}  // namespace

void table_x86_avx512(const uint8_t* src, uint8_t* dst, int64_t count, const uint8_t* table) {
  table_by_shuffles<Avx512, 2>(src, dst, count, table);
}

}  // namespace cpuaccel::kernels
