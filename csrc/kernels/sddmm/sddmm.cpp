#include "kernels/sddmm/sddmm.h"

#include <algorithm>
#include <array>
#include <atomic>

#include "base/parallel.h"
#include "kernels/csr/cut.h"

namespace cpuaccel::kernels {
namespace {

constexpr std::array kRows{
#define CPUACCEL_KERNEL(name) CPUACCEL_ROW(KernelRow<SddmmFunction>, name, sddmm_##name)
#include "kernels/sddmm/kernels.inc"
#undef CPUACCEL_KERNEL
};

constexpr int64_t kGrain = 1 << 15;  // entries times K

template <typename Index>
int64_t row_of(const Csr& csr, int64_t e) {
  const auto* crow = csr.crow_as<Index>();
  return std::upper_bound(crow, crow + csr.M + 1, static_cast<Index>(e)) - crow - 1;
}

}  // namespace

std::span<const KernelRow<SddmmFunction>> sddmm_kernels() { return kRows; }

CsrFault sddmm(const SddmmCall& call, SddmmFunction* function) {
  if (!csr_ascends(call.csr)) {
    return CsrFault::crow;
  }
  std::atomic<bool> good{true};
  const int64_t grain = std::max<int64_t>(1, kGrain / std::max<int64_t>(call.K, 1));
  parallel_for(0, call.csr.nnz, grain, [&](int64_t begin, int64_t end) {
    const int64_t row =
        call.csr.wide ? row_of<int64_t>(call.csr, begin) : row_of<int32_t>(call.csr, begin);
    if (!function(call, row, begin, end)) {
      good.store(false, std::memory_order_relaxed);
    }
  });
  return good ? CsrFault::none : CsrFault::col;
}

CsrFault sddmm(const SddmmCall& call) {
  return sddmm(call, first_usable(sddmm_kernels()).function);
}

}  // namespace cpuaccel::kernels
