#include "kernels/csr/avx512.h"
#include "kernels/spmm/impl.h"

namespace cpuaccel::kernels {

bool spmm_x86_avx512(const SpmmCall& call, const SpmmWork& work) {
  return by_type<GraphF32x16, GraphF64x8, GraphBf16x16, GraphF16x16>(call, work);
}

}  // namespace cpuaccel::kernels
