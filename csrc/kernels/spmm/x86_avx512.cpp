#include "kernels/csr/avx512.h"
#include "kernels/spmm/few_columns.h"
#include "kernels/spmm/impl.h"

namespace cpuaccel::kernels {

bool spmm_x86_avx512(const SpmmCall& call, const SpmmWork& work) {
  switch (call.type) {
    case DataType::f32:
      return suits_few_columns(call)
                 ? few_columns<float>(call, work)
                 : by_width<GraphF32x16, GraphBesideWider<GraphF32x8>, GraphF32x4>(call, work);
    case DataType::f64:
      return suits_few_columns(call)
                 ? few_columns<double>(call, work)
                 : by_width<GraphF64x8, GraphBesideWider<GraphF64x4>, GraphF64x2>(call, work);
    case DataType::bf16:
      return by_width<GraphBf16x16>(call, work);
    case DataType::f16:
      return by_width<GraphF16x16>(call, work);
    default:
      __builtin_unreachable();
  }
}

}  // namespace cpuaccel::kernels
