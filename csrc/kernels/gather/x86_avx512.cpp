#include <immintrin.h>

#include "kernels/gather/copy_row.h"
#include "kernels/inline.h"

namespace cpuaccel::kernels {
namespace {

struct Bytes64 {
  using Vector = __m512i;
  static constexpr int64_t kBytes = 64;
  CPUACCEL_INLINE static Vector load(const std::byte* src) { return _mm512_loadu_si512(src); }
  CPUACCEL_INLINE static void store(std::byte* dst, Vector v) { _mm512_storeu_si512(dst, v); }
};

}  // namespace

void copy_row_x86_avx512(std::byte* dst, const std::byte* src, int64_t bytes) {
  copy_row<Bytes64>(dst, src, bytes);
}

}  // namespace cpuaccel::kernels
