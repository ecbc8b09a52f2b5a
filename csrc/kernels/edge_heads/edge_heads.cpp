#include "kernels/edge_heads/edge_heads.h"

#include <array>

#include "kernels/csr/pieces.h"

namespace cpuaccel::kernels {
namespace {

constexpr std::array kRows{
#define CPUACCEL_KERNEL(name) CPUACCEL_ROW(KernelRow<EdgeHeadsFunction>, name, edge_heads_##name)
#include "kernels/edge_heads/kernels.inc"
#undef CPUACCEL_KERNEL
};

constexpr int64_t kWork = 1 << 18;  // edges times columns per range

}  // namespace

std::span<const KernelRow<EdgeHeadsFunction>> edge_heads_kernels() { return kRows; }

void edge_heads(const EdgeHeadsCall& call, EdgeHeadsFunction* function) {
  over_rows(call.csr, call.H * call.C, kWork,
            [&](int64_t row, int64_t rows) { function(call, row, rows); });
}

void edge_heads(const EdgeHeadsCall& call) {
  edge_heads(call, first_usable(edge_heads_kernels()).function);
}

}  // namespace cpuaccel::kernels
