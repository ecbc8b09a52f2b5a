#include "kernels/csr/scalar.h"
#include "kernels/edge_heads/impl.h"

namespace cpuaccel::kernels {

void edge_heads_ref(const EdgeHeadsCall& call, int64_t row, int64_t rows) {
  if (call.type == DataType::f64) {
    edge_heads_by_width<GraphScalar<double>, GraphScalar<double>>(call, row, rows);
  } else {
    edge_heads_by_width<GraphScalar<float>, GraphScalar<float>>(call, row, rows);
  }
}

}  // namespace cpuaccel::kernels
