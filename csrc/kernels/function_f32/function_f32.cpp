#include "kernels/function_f32/function_f32.h"

#include <array>

namespace cpuaccel::kernels {
namespace {

#define CPUACCEL_ROW(name, isa) KernelRow<FunctionF32Function>{#name, isa, function_f32_##name},
constexpr std::array kRows{CPUACCEL_FUNCTION_F32_KERNELS(CPUACCEL_ROW)};
#undef CPUACCEL_ROW

}  // namespace

std::span<const KernelRow<FunctionF32Function>> function_f32_kernels() { return kRows; }

void function_f32(FloatFunction function, float* values, int64_t count) {
  first_usable(function_f32_kernels()).function(function, values, count);
}

void function_f32_of(const void* function, float* values, int64_t count) {
  function_f32(*static_cast<const FloatFunction*>(function), values, count);
}

}  // namespace cpuaccel::kernels
