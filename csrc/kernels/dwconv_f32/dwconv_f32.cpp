#include "kernels/dwconv_f32/dwconv_f32.h"

#include <algorithm>
#include <array>

#include "base/parallel.h"
#include "base/scratch.h"
#include "kernels/round_up.h"

namespace cpuaccel::kernels {
namespace {

constexpr std::array kRows{
#define CPUACCEL_KERNEL(name) CPUACCEL_ROW(KernelRow<DwconvF32Function>, name, dwconv_f32_##name)
#include "kernels/dwconv_f32/kernels.inc"
#undef CPUACCEL_KERNEL
};

constexpr int64_t kStripFloats = 4096;  // half of an L1 cache
constexpr int64_t kGrain = 131072;      // multiply-adds per thread at least

}  // namespace

std::span<const KernelRow<DwconvF32Function>> dwconv_f32_kernels() { return kRows; }

int64_t dwconv_f32_units(const DwconvF32Call& call) {
  const auto& s = call.shape;
  return s.N * (call.layout == ImageLayout::channels_first ? s.OC : s.OH);
}

DwconvF32Strip dwconv_f32_strip(const Conv2dShape& s) {
  DwconvF32Strip strip;
  // Includes the last tap of the last vector of results that begins within a row.
  const int64_t width = round_up(s.OW, kDwconvF32Vector) + (s.KW - 1) * s.DW / s.SW + 1;
  strip.phase = round_up(width, 8);
  strip.pitch = strip.phase * s.SW;
  const int64_t halo = (s.KH - 1) * s.DH + 1;
  const int64_t most = std::max<int64_t>(4, (kStripFloats / strip.pitch - halo) / s.SH + 1);
  // Strips of equal size, a multiple of four rows, so that the last one is not small.
  const int64_t strips = divide_up(s.OH, most);
  strip.rows = std::min(s.OH, round_up(divide_up(s.OH, strips), 4));
  strip.src_rows = (strip.rows - 1) * s.SH + halo;
  return strip;
}

void dwconv_f32(const DwconvF32Call& call, DwconvF32Function* function) {
  const int64_t units = dwconv_f32_units(call);
  const bool first = call.layout == ImageLayout::channels_first;
  const DwconvF32Strip strip = first ? dwconv_f32_strip(call.shape) : DwconvF32Strip{};
  const auto bytes = static_cast<size_t>(strip.src_rows * strip.pitch) * sizeof(float);
  const auto& s = call.shape;
  const int64_t unit_work = s.taps() * s.OW * (first ? s.OH : s.OC);
  const int64_t grain = std::max<int64_t>(1, kGrain / std::max<int64_t>(1, unit_work));
  parallel_for(0, units, grain, [&](int64_t begin, int64_t end) {
    function(call, strip, begin, end, static_cast<float*>(scratch(ScratchSlot::taps, bytes)));
  });
}

void dwconv_f32(const DwconvF32Call& call) {
  dwconv_f32(call, first_usable(dwconv_f32_kernels()).function);
}

}  // namespace cpuaccel::kernels
