#include "kernels/eltwise_bf16/eltwise_bf16.h"

#include <array>

#include "base/parallel.h"

namespace cpuaccel::kernels {
namespace {

constexpr std::array kRows{
#define CPUACCEL_KERNEL(name) \
  CPUACCEL_ROW(KernelRow<EltwiseBf16Function>, name, eltwise_bf16_##name)
#include "kernels/eltwise_bf16/kernels.inc"
#undef CPUACCEL_KERNEL
};

// Elements per thread at least: some microseconds of work.
constexpr int64_t kGrain = 32768;

}  // namespace

std::span<const KernelRow<EltwiseBf16Function>> eltwise_bf16_kernels() { return kRows; }

void eltwise_bf16(Activation activation, uint16_t* values, int64_t count) {
  const auto& row = first_usable(eltwise_bf16_kernels());
  parallel_for(0, count, kGrain, [&](int64_t begin, int64_t end) {
    row.function(activation, values + begin, end - begin);
  });
}

}  // namespace cpuaccel::kernels
