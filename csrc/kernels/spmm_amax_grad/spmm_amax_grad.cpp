#include "kernels/spmm_amax_grad/spmm_amax_grad.h"

#include <array>

#include "kernels/csr/pieces.h"

namespace cpuaccel::kernels {
namespace {

constexpr std::array kRows{
#define CPUACCEL_KERNEL(name) \
  CPUACCEL_ROW(KernelRow<SpmmAmaxGradFunction>, name, spmm_amax_grad_##name)
#include "kernels/spmm_amax_grad/kernels.inc"
#undef CPUACCEL_KERNEL
};

constexpr int64_t kWork = 1 << 18;  // entries times columns per range

}  // namespace

std::span<const KernelRow<SpmmAmaxGradFunction>> spmm_amax_grad_kernels() { return kRows; }

void spmm_amax_grad(const SpmmAmaxGradCall& call, SpmmAmaxGradFunction* function) {
  const auto step = [&](const Csr& rows, SpmmAmaxGradStep which) {
    over_rows(rows, call.K, kWork,
              [&](int64_t row, int64_t count) { function(call, which, row, count); });
  };
  step(call.csr, SpmmAmaxGradStep::share);
  if (call.grad_values != nullptr) {
    step(call.csr, SpmmAmaxGradStep::values);
  }
  if (call.grad_src != nullptr) {
    const auto& columns = call.columns;
    step({call.csr.N, call.csr.M, call.csr.nnz, columns.ccol, columns.row, columns.wide},
         SpmmAmaxGradStep::src);
  }
}

void spmm_amax_grad(const SpmmAmaxGradCall& call) {
  spmm_amax_grad(call, first_usable(spmm_amax_grad_kernels()).function);
}

}  // namespace cpuaccel::kernels
