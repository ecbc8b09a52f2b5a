#include "kernels/rms_norm/rms_norm.h"

#include <array>

namespace cpuaccel::kernels {
namespace {

constexpr std::array kRows{
#define CPUACCEL_KERNEL(name) CPUACCEL_ROW(KernelRow<RmsNormFunction>, name, rms_norm_##name)
#include "kernels/rms_norm/kernels.inc"
#undef CPUACCEL_KERNEL
};

}  // namespace

std::span<const KernelRow<RmsNormFunction>> rms_norm_kernels() { return kRows; }

void rms_norm(const RmsNormCall& call) {
  rms_norm(call, first_usable(rms_norm_kernels()).function);
}

void rms_norm(const RmsNormCall& call, RmsNormFunction* function) {
  run_norm_rows(call, [&](const NormRow& row) {
    function({call.columns, row.src, row.addend, row.x, row.dst, call.weights, call.weight_offset,
              call.epsilon});
  });
}

}  // namespace cpuaccel::kernels
