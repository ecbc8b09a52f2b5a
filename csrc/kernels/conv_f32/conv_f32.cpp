#include "kernels/conv_f32/conv_f32.h"

#include <cstddef>
#include <limits>
#include <vector>

#include "base/scratch.h"
#include "kernels/conv_f32/by_gemm.h"
#include "kernels/conv_f32/direct.h"
#include "kernels/conv_f32/packed.h"

namespace cpuaccel::kernels {

bool conv_f32_takes(const Conv2dShape& s) {
  // An upper bound of the floats that a block sees, of an image with its padding.
  const auto size = [](int64_t image, int64_t padding, int64_t reach) {
    return static_cast<double>(image + 2 * padding + reach);
  };
  return size(s.IH, s.PH, s.KH * s.DH) * size(s.IW, s.PW, s.KW * s.DW) *
             static_cast<double>(s.C + 16) <
         std::numeric_limits<int32_t>::max();
}

void conv_f32(const ConvF32Call& call, GemmFunction* row) {
  const auto& s = call.shape;
  if (conv_suits_gemm(s, call.layout)) {
    conv_by_gemm(call, row);
    return;
  }
  const int64_t K = s.C / s.groups * s.taps(), N = s.OC / s.groups;
  const size_t bytes = GemmPacked(nullptr, DataType::f32, K, N, row).bytes();
  auto* memory =
      static_cast<char*>(scratch(ScratchSlot::gemm_b, static_cast<size_t>(s.groups) * bytes));
  std::vector<GemmPacked> weights;
  weights.reserve(static_cast<size_t>(s.groups));
  for (int64_t g = 0; g < s.groups; ++g, memory += bytes) {
    weights.emplace_back(memory, DataType::f32, K, N, row);
    weights.back().pack({.data = call.weights + g * N * K, .row_stride = 1, .column_stride = K});
  }
  direct_conv({.shape = s,
               .layout = call.layout,
               .order = call.layout,
               .src = call.src,
               .weights = weights,
               .bias = call.bias,
               .dst = call.dst});
}

void conv_f32(const ConvF32Call& call) { conv_f32(call, first_usable(gemm_kernels()).function); }

void conv_f32_packed(const ConvF32PackedCall& call) {
  direct_conv({.shape = call.shape,
               .layout = call.layout,
               .order = WeightOrder::channels_first,
               .src = call.src,
               .weights = call.weights,
               .bias = call.bias,
               .dst = call.dst});
}

}  // namespace cpuaccel::kernels
