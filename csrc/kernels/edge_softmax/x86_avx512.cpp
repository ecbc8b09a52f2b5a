#include "kernels/edge_softmax/impl.h"
#include "kernels/float_vectors/exp_avx512.h"

namespace cpuaccel::kernels {

void edge_softmax_x86_avx512(const EdgeSoftmaxCall& call, int64_t row, int64_t rows,
                             void* scratch) {
  if (call.type == DataType::f64) {
    return edge_softmax_ref(call, row, rows, scratch);  // there is no vector exp for doubles
  }
  edge_softmax_by_index<VectorExp<ExpFloats16>>(call, row, rows, scratch);
}

}  // namespace cpuaccel::kernels
