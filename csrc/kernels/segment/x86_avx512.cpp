#include "kernels/csr/avx512.h"
#include "kernels/segment/impl.h"

namespace cpuaccel::kernels {

void segment_x86_avx512(const SegmentCall& call, const SegmentWork& work) {
  if (call.type == DataType::f64) {
    segment_by_width<GraphF64x8, GraphF64x4, GraphF64x2>(call, work);
  } else {
    segment_by_width<GraphF32x16, GraphF32x8, GraphF32x4>(call, work);
  }
}

}  // namespace cpuaccel::kernels
