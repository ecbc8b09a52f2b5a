#include "kernels/layer_norm/layer_norm.h"

#include <array>

namespace cpuaccel::kernels {
namespace {

constexpr std::array kRows{
#define CPUACCEL_KERNEL(name) CPUACCEL_ROW(KernelRow<LayerNormFunction>, name, layer_norm_##name)
#include "kernels/layer_norm/kernels.inc"
#undef CPUACCEL_KERNEL
};

}  // namespace

std::span<const KernelRow<LayerNormFunction>> layer_norm_kernels() { return kRows; }

void layer_norm(const LayerNormCall& call) {
  layer_norm(call, first_usable(layer_norm_kernels()).function);
}

void layer_norm(const LayerNormCall& call, LayerNormFunction* function) {
  run_norm_rows(call, [&](const NormRow& row) {
    function(
        {call.columns, row.src, row.addend, row.x, row.dst, call.gamma, call.beta, call.epsilon});
  });
}

}  // namespace cpuaccel::kernels
