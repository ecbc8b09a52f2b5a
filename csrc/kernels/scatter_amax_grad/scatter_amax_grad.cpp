#include "kernels/scatter_amax_grad/scatter_amax_grad.h"

#include <array>

#include "base/parallel.h"
#include "kernels/round_up.h"

namespace cpuaccel::kernels {
namespace {

constexpr std::array kRows{
#define CPUACCEL_KERNEL(name) \
  CPUACCEL_ROW(KernelRow<ScatterAmaxGradFunction>, name, scatter_amax_grad_##name)
#include "kernels/scatter_amax_grad/kernels.inc"
#undef CPUACCEL_KERNEL
};

constexpr int64_t kGrain = 1 << 15;  // entries times columns

}  // namespace

std::span<const KernelRow<ScatterAmaxGradFunction>> scatter_amax_grad_kernels() { return kRows; }

void scatter_amax_grad(const ScatterAmaxGradCall& call, ScatterAmaxGradFunction* function) {
  if (call.K > 0) {
    parallel_for(0, call.E, divide_up(kGrain, call.K),
                 [&](int64_t begin, int64_t end) { function(call, begin, end); });
  }
}

void scatter_amax_grad(const ScatterAmaxGradCall& call) {
  scatter_amax_grad(call, first_usable(scatter_amax_grad_kernels()).function);
}

}  // namespace cpuaccel::kernels
