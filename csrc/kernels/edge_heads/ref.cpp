#include "kernels/csr/scalar.h"
#include "kernels/edge_heads/impl.h"

namespace cpuaccel::kernels {

void edge_heads_ref(const EdgeHeadsCall& call, int64_t row, int64_t rows) {
  edge_heads_by_type<GraphScalar<float>, GraphScalar<float>, GraphScalar<double>>(call, row, rows);
}

}  // namespace cpuaccel::kernels
