#include "kernels/interleave/interleave.h"

#include <array>

namespace cpuaccel::kernels {
namespace {

#define CPUACCEL_ROW(name, isa) KernelRow<InterleaveFunction>{#name, isa, interleave_##name},
constexpr std::array kRows{CPUACCEL_INTERLEAVE_KERNELS(CPUACCEL_ROW)};
#undef CPUACCEL_ROW

}  // namespace

std::span<const KernelRow<InterleaveFunction>> interleave_kernels() { return kRows; }

void interleave_u8(std::span<const InterleaveSource> src, uint8_t* dst, int64_t rows,
                   int64_t columns) {
  const auto function = first_usable(interleave_kernels()).function;
  function(src.data(), static_cast<int64_t>(src.size()), dst, rows, columns);
}

}  // namespace cpuaccel::kernels
