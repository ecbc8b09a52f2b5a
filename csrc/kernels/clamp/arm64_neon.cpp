#include "kernels/byte_vectors/neon.h"
#include "kernels/clamp/impl.h"

namespace cpuaccel::kernels {

void clamp_arm64_neon(const uint8_t* src, uint8_t* dst, int64_t count, ClampLimits limits) {
  clamp_by<Bytes16, 2>(src, dst, count, limits);
}

}  // namespace cpuaccel::kernels
