#include "ops/conv_shape.h"

#include <ATen/EmptyTensor.h>

#include <algorithm>
#include <array>

#include "base/isa.h"
#include "kernels/conv_f32/conv_f32.h"

namespace cpuaccel::ops {
namespace {

bool all_at_least(at::IntArrayRef values, int64_t lowest) {
  return std::all_of(values.begin(), values.end(), [&](int64_t v) { return v >= lowest; });
}

bool usual(const at::Tensor& input, at::IntArrayRef weight, const ConvArguments& arguments) {
  const auto spatial = weight.size() - 2;
  const auto sized = [&](at::IntArrayRef list) { return list.size() == spatial; };
  return (spatial == 1 || spatial == 2) && input.dim() == static_cast<int64_t>(weight.size()) &&
         sized(arguments.stride) && sized(arguments.padding) && sized(arguments.dilation) &&
         all_at_least(arguments.stride, 1) && all_at_least(arguments.padding, 0) &&
         all_at_least(arguments.dilation, 1) && arguments.groups >= 1 && input.numel() != 0 &&
         all_at_least(weight, 1);
}

}  // namespace

bool dense_of(const at::Tensor& x, at::ScalarType type) {
  return x.scalar_type() == type && x.layout() == at::kStrided && x.is_cpu();
}

bool plain_loop_in_torch(at::ScalarType type) {
  return (type == at::kBFloat16 && !isa_usable(Isa::avx512)) ||
         (type == at::kHalf && !has_fp16_arithmetic());
}

std::optional<kernels::Conv2dShape> conv_shape(const at::Tensor& input, at::IntArrayRef weight,
                                               const std::optional<at::Tensor>& bias,
                                               const ConvArguments& arguments) {
  if (weight.size() < 3 || !dense_floats(input) || !usual(input, weight, arguments)) {
    return std::nullopt;
  }
  // conv1d is conv2d of images with one row.
  const bool plane = weight.size() == 4;
  const size_t last = plane ? 1 : 0;
  kernels::Conv2dShape shape{.N = input.size(0),
                             .C = input.size(1),
                             .IH = plane ? input.size(2) : 1,
                             .IW = input.size(-1),
                             .OC = weight[0],
                             .groups = arguments.groups,
                             .KH = plane ? weight[2] : 1,
                             .KW = weight.back(),
                             .SH = plane ? arguments.stride[0] : 1,
                             .SW = arguments.stride[last],
                             .PH = plane ? arguments.padding[0] : 0,
                             .PW = arguments.padding[last],
                             .DH = plane ? arguments.dilation[0] : 1,
                             .DW = arguments.dilation[last]};
  // Small enough that no product below overflows.
  constexpr int64_t kLargest = int64_t{1} << 30;
  if (std::max({shape.IH, shape.IW, shape.KH, shape.KW, shape.SH, shape.SW, shape.PH, shape.PW,
                shape.DH, shape.DW}) > kLargest) {
    return std::nullopt;
  }
  const int64_t room_h = shape.IH + 2 * shape.PH - shape.DH * (shape.KH - 1) - 1;
  const int64_t room_w = shape.IW + 2 * shape.PW - shape.DW * (shape.KW - 1) - 1;
  shape.OH = room_h / shape.SH + 1;
  shape.OW = room_w / shape.SW + 1;
  const bool fits = room_h >= 0 && room_w >= 0 && shape.C % shape.groups == 0 &&
                    shape.OC % shape.groups == 0 && weight[1] == shape.C / shape.groups;
  if (!fits ||
      (has_bias(bias) && !(dense_floats(*bias) && bias->dim() == 1 && bias->size(0) == shape.OC))) {
    return std::nullopt;
  }
  return kernels::conv_f32_takes(shape) ? std::optional(shape) : std::nullopt;
}

at::Tensor conv_result(const at::Tensor& input, const kernels::Conv2dShape& s,
                       kernels::ImageLayout layout) {
  const std::array<int64_t, 4> sizes{s.N, s.OC, s.OH, s.OW};
  if (input.dim() == 3) {
    const std::array<int64_t, 3> row{s.N, s.OC, s.OW};
    return at::detail::empty_cpu(row, at::kFloat, false, format_of(layout));
  }
  return at::detail::empty_cpu(sizes, at::kFloat, false, format_of(layout));
}

}  // namespace cpuaccel::ops
