#include "kernels/csr/avx512.h"
#include "kernels/sddmm/impl.h"

namespace cpuaccel::kernels {

bool sddmm_x86_avx512(const SddmmCall& call, int64_t row, int64_t begin, int64_t end) {
  return by_type<GraphF32x16, GraphF64x8, GraphBf16x16, GraphF16x16>(call, row, begin, end);
}

}  // namespace cpuaccel::kernels
