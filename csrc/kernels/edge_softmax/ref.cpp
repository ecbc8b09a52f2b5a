#include <cmath>

#include "kernels/edge_softmax/impl.h"

namespace cpuaccel::kernels {
namespace {

template <typename Float>
struct ScalarExp {
  using Number = Float;
  static void exps(Float* numbers, int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
      numbers[i] = std::exp(numbers[i]);
    }
  }
};

}  // namespace

void edge_softmax_ref(const EdgeSoftmaxCall& call, int64_t row, int64_t rows, void* scratch) {
  call.type == DataType::f64 ? edge_softmax_by_index<ScalarExp<double>>(call, row, rows, scratch)
                             : edge_softmax_by_index<ScalarExp<float>>(call, row, rows, scratch);
}

}  // namespace cpuaccel::kernels
