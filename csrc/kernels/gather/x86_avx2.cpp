#include <immintrin.h>

#include "kernels/gather/copy_row.h"
#include "kernels/inline.h"

namespace cpuaccel::kernels {
namespace {

struct Bytes32 {
  using Vector = __m256i;
  static constexpr int64_t kBytes = 32;
  CPUACCEL_INLINE static Vector load(const std::byte* src) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(src));
  }
  CPUACCEL_INLINE static void store(std::byte* dst, Vector v) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(dst), v);
  }
};

}  // namespace

void copy_row_x86_avx2(std::byte* dst, const std::byte* src, int64_t bytes) {
  copy_row<Bytes32>(dst, src, bytes);
}

}  // namespace cpuaccel::kernels
