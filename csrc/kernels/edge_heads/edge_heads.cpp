#include "kernels/edge_heads/edge_heads.h"

#include <array>

#include "kernels/csr/pieces.h"

namespace cpuaccel::kernels {
namespace {

#define CPUACCEL_ROW(name, isa) KernelRow<EdgeHeadsFunction>{#name, isa, edge_heads_##name},
constexpr std::array kRows{CPUACCEL_EDGE_HEADS_KERNELS(CPUACCEL_ROW)};
#undef CPUACCEL_ROW

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
