#include "kernels/function_f32/function_f32.h"

#include <array>

namespace cpuaccel::kernels {
namespace {

constexpr std::array kRows{
#define CPUACCEL_KERNEL(name) \
  CPUACCEL_ROW(KernelRow<FunctionF32Function>, name, function_f32_##name)
#include "kernels/function_f32/kernels.inc"
#undef CPUACCEL_KERNEL
};

}  // namespace

std::span<const KernelRow<FunctionF32Function>> function_f32_kernels() { return kRows; }

void function_f32(FloatFunction function, float* values, int64_t count) {
  first_usable(function_f32_kernels()).function(function, values, count);
}

void function_f32_of(const void* function, float* values, int64_t count) {
  function_f32(*static_cast<const FloatFunction*>(function), values, count);
}

}  // namespace cpuaccel::kernels
