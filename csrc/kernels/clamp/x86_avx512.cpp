#include "kernels/byte_vectors/avx512.h"
#include "kernels/clamp/impl.h"

namespace cpuaccel::kernels {

// Uses 256-bit vectors. Zen 4 stores no more than 256 bits per cycle, and 512-bit vectors take up
// to a third longer if dst lies 64 or 128 bytes after src within their pages.
void clamp_x86_avx512(const uint8_t* src, uint8_t* dst, int64_t count, ClampLimits limits) {
  clamp_by<MaskedBytes32, 1>(src, dst, count, limits);
}

}  // namespace cpuaccel::kernels
