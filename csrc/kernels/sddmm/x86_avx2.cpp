#include "kernels/csr/avx2.h"
#include "kernels/sddmm/impl.h"

namespace cpuaccel::kernels {

bool sddmm_x86_avx2(const SddmmCall& call, int64_t row, int64_t begin, int64_t end) {
  return by_type<GraphF32x8, GraphF64x4, GraphBf16x8, GraphF16x8>(call, row, begin, end);
}

}  // namespace cpuaccel::kernels
