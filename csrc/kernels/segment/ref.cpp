#include "kernels/csr/scalar.h"
#include "kernels/segment/impl.h"

namespace cpuaccel::kernels {

void segment_ref(const SegmentCall& call, const SegmentWork& work) {
  if (call.type == DataType::f64) {
    segment_by_width<GraphScalar<double>>(call, work);
  } else {
    segment_by_width<GraphScalar<float>>(call, work);
  }
}

}  // namespace cpuaccel::kernels
