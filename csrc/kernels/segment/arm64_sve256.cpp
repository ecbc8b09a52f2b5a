#include "kernels/csr/sve256.h"
#include "kernels/segment/impl.h"

namespace cpuaccel::kernels {

void segment_arm64_sve256(const SegmentCall& call, const SegmentWork& work) {
  if (call.type == DataType::f64) {
    segment_by_width<SveF64x4>(call, work);
  } else {
    segment_by_width<SveF32x8>(call, work);
  }
}

}  // namespace cpuaccel::kernels
