#include "kernels/extreme_grad/extreme_grad.h"

#include <array>

#include "kernels/csr/pieces.h"

namespace cpuaccel::kernels {
namespace {

constexpr std::array kRows{
#define CPUACCEL_KERNEL(name) \
  CPUACCEL_ROW(KernelRow<ExtremeGradFunction>, name, extreme_grad_##name)
#include "kernels/extreme_grad/kernels.inc"
#undef CPUACCEL_KERNEL
};

constexpr int64_t kWork = 1 << 18;  // entries times columns per range

}  // namespace

std::span<const KernelRow<ExtremeGradFunction>> extreme_grad_kernels() { return kRows; }

void extreme_grad(const ExtremeGradCall& call, ExtremeGradFunction* function) {
  const auto step = [&](const Csr& rows, ExtremeGradStep which) {
    over_rows(rows, call.K, kWork,
              [&](int64_t row, int64_t count) { function(call, which, row, count); });
  };
  step(call.csr, ExtremeGradStep::share);
  if (call.grad_values != nullptr) {
    step(call.csr, ExtremeGradStep::values);
  }
  if (call.grad_src != nullptr) {
    const auto& columns = call.columns;
    step({call.csr.N, call.csr.M, call.csr.nnz, columns.ccol, columns.row, columns.wide},
         ExtremeGradStep::src);
  }
}

void extreme_grad(const ExtremeGradCall& call) {
  extreme_grad(call, first_usable(extreme_grad_kernels()).function);
}

}  // namespace cpuaccel::kernels
