#include "kernels/csr/neon.h"
#include "kernels/segment/impl.h"

namespace cpuaccel::kernels {

void segment_arm64_neon(const SegmentCall& call, const SegmentWork& work) {
  if (call.type == DataType::f64) {
    segment_by_width<GraphF64x2>(call, work);
  } else {
    segment_by_width<GraphF32x4>(call, work);
  }
}

}  // namespace cpuaccel::kernels
