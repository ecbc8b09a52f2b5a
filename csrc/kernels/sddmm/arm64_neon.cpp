#include "kernels/csr/neon.h"
#include "kernels/sddmm/impl.h"

namespace cpuaccel::kernels {

bool sddmm_arm64_neon(const SddmmCall& call, int64_t row, int64_t begin, int64_t end) {
  return by_type<GraphF32x4, GraphF64x2, GraphBf16x4, GraphF16x4>(call, row, begin, end);
}

}  // namespace cpuaccel::kernels
