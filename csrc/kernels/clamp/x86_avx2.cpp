#include "kernels/byte_vectors/avx2.h"
#include "kernels/clamp/impl.h"

namespace cpuaccel::kernels {

void clamp_x86_avx2(const uint8_t* src, uint8_t* dst, int64_t count, ClampLimits limits) {
  clamp_by<Bytes32, 1>(src, dst, count, limits);
}

}  // namespace cpuaccel::kernels
