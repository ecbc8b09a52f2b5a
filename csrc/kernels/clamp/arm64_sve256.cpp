#include "kernels/byte_vectors/sve256.h"
#include "kernels/clamp/impl.h"

namespace cpuaccel::kernels {

void clamp_arm64_sve256(const uint8_t* src, uint8_t* dst, int64_t count, ClampLimits limits) {
  clamp_by<SveBytes32, 1>(src, dst, count, limits);
}

}  // namespace cpuaccel::kernels
