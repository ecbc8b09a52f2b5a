#include "kernels/function_bf16/function_bf16.h"

#include <array>

#include "base/parallel.h"

namespace cpuaccel::kernels {
namespace {

constexpr std::array kRows{
#define CPUACCEL_KERNEL(name) \
  CPUACCEL_ROW(KernelRow<FunctionBf16Function>, name, function_bf16_##name)
#include "kernels/function_bf16/kernels.inc"
#undef CPUACCEL_KERNEL
};

// Elements per thread at least: some microseconds of work.
constexpr int64_t kGrain = 32768;

}  // namespace

std::span<const KernelRow<FunctionBf16Function>> function_bf16_kernels() { return kRows; }

void function_bf16(FloatFunction function, uint16_t* values, int64_t count) {
  const auto& row = first_usable(function_bf16_kernels());
  parallel_for(0, count, kGrain, [&](int64_t begin, int64_t end) {
    row.function(function, values + begin, end - begin);
  });
}

}  // namespace cpuaccel::kernels
