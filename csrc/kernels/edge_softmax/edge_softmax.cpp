#include "kernels/edge_softmax/edge_softmax.h"

#include <array>
#include <vector>

#include "kernels/csr/pieces.h"

namespace cpuaccel::kernels {
namespace {

constexpr std::array kRows{
#define CPUACCEL_KERNEL(name) \
  CPUACCEL_ROW(KernelRow<EdgeSoftmaxFunction>, name, edge_softmax_##name)
#include "kernels/edge_softmax/kernels.inc"
#undef CPUACCEL_KERNEL
};

constexpr int64_t kWork = 1 << 15;  // edges times heads per range

}  // namespace

std::span<const KernelRow<EdgeSoftmaxFunction>> edge_softmax_kernels() { return kRows; }

bool edge_softmax(const EdgeSoftmaxCall& call, EdgeSoftmaxFunction* function) {
  return over_rows(call.csr, call.H, kWork, [&](int64_t row, int64_t rows) {
    std::vector<double> scratch(static_cast<size_t>(2 * call.H));
    function(call, row, rows, scratch.data());
  });
}

bool edge_softmax(const EdgeSoftmaxCall& call) {
  return edge_softmax(call, first_usable(edge_softmax_kernels()).function);
}

}  // namespace cpuaccel::kernels
