#include "kernels/csr/avx2.h"
#include "kernels/spmm/impl.h"

namespace cpuaccel::kernels {

bool spmm_x86_avx2(const SpmmCall& call, const SpmmWork& work) {
  return by_type<GraphF32x8, GraphF64x4, GraphBf16x8, GraphF16x8>(call, work);
}

}  // namespace cpuaccel::kernels
