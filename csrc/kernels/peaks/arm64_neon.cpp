#include "kernels/byte_vectors/neon.h"
#include "kernels/peaks/loops.h"

namespace cpuaccel::kernels {

int64_t peak_fp32_arm64_neon(int64_t iterations) {
  const float32x4_t a = opaque(vdupq_n_f32(1.0f)), b = opaque(vdupq_n_f32(0.0f));
  return repeat<20, float32x4_t>(iterations, 4,
                                 [=](float32x4_t sum) { return vfmaq_f32(sum, a, b); });
}

void peak_read_arm64_neon(const std::byte* src, std::byte* /*dst*/, int64_t bytes) {
  read_by<Bytes16>(src, bytes);
}

void peak_copy_arm64_neon(const std::byte* src, std::byte* dst, int64_t bytes) {
  copy_by<Bytes16>(src, dst, bytes);
}

}  // namespace cpuaccel::kernels
