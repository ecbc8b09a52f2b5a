#include "kernels/eltwise_f32/eltwise_f32.h"

#include <array>

namespace cpuaccel::kernels {
namespace {

constexpr std::array kRows{
#define CPUACCEL_KERNEL(name) CPUACCEL_ROW(KernelRow<EltwiseF32Function>, name, eltwise_f32_##name)
#include "kernels/eltwise_f32/kernels.inc"
#undef CPUACCEL_KERNEL
};

}  // namespace

std::span<const KernelRow<EltwiseF32Function>> eltwise_f32_kernels() { return kRows; }

void eltwise_f32(Activation activation, float* values, int64_t count) {
  first_usable(eltwise_f32_kernels()).function(activation, values, count);
}

void eltwise_f32_of(const void* activation, float* values, int64_t count) {
  eltwise_f32(*static_cast<const Activation*>(activation), values, count);
}

}  // namespace cpuaccel::kernels
