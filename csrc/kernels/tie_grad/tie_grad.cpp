#include "kernels/tie_grad/tie_grad.h"

#include <array>

#include "base/parallel.h"
#include "kernels/round_up.h"

namespace cpuaccel::kernels {
namespace {

constexpr std::array kRows{
#define CPUACCEL_KERNEL(name) CPUACCEL_ROW(KernelRow<TieGradFunction>, name, tie_grad_##name)
#include "kernels/tie_grad/kernels.inc"
#undef CPUACCEL_KERNEL
};

constexpr int64_t kGrain = 1 << 15;  // entries times columns

}  // namespace

std::span<const KernelRow<TieGradFunction>> tie_grad_kernels() { return kRows; }

void tie_grad(const TieGradCall& call, TieGradFunction* function) {
  if (call.K > 0) {
    parallel_for(0, call.E, divide_up(kGrain, call.K),
                 [&](int64_t begin, int64_t end) { function(call, begin, end); });
  }
}

void tie_grad(const TieGradCall& call) {
  tie_grad(call, first_usable(tie_grad_kernels()).function);
}

}  // namespace cpuaccel::kernels
