#include "kernels/csr/sve256.h"
#include "kernels/spmm/few_columns.h"
#include "kernels/spmm/impl.h"

namespace cpuaccel::kernels {

bool spmm_arm64_sve256(const SpmmCall& call, const SpmmWork& work) {
  switch (call.type) {
    case DataType::f32:
      return suits_few_columns(call) ? few_columns<float>(call, work)
                                     : by_width<SveF32x8>(call, work);
    case DataType::f64:
      return suits_few_columns(call) ? few_columns<double>(call, work)
                                     : by_width<SveF64x4>(call, work);
    case DataType::bf16:
      return by_width<SveBf16x8>(call, work);
    case DataType::f16:
      return by_width<SveF16x8>(call, work);
    default:
      __builtin_unreachable();
  }
}

}  // namespace cpuaccel::kernels
