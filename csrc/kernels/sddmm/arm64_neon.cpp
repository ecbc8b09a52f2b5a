#include "kernels/csr/halves_neon.h"
#include "kernels/sddmm/impl.h"

namespace cpuaccel::kernels {

bool sddmm_arm64_neon(const SddmmCall& call, int64_t row, int64_t begin, int64_t end) {
  return by_type<GraphF32x4, GraphF64x2, GraphBf16x8, GraphF16x8>(call, row, begin, end);
}

}  // namespace cpuaccel::kernels
