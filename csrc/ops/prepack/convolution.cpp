// cpuaccel::packed_convolution: conv1d and conv2d of f32 with packed weights, of which no plain
// copy exists.
//
// packed: for each group its OC/groups x (C/groups * KH * KW) weights, packed by pack_linear.
// weight: the sizes of the plain weight. channels_last: whether the plain weight was channels last,
// which makes torch's results channels last too. Other inputs fall back to torch's convolution on
// the unpacked weight, which raises the error if there is one.
#include "ops/prepack/convolution.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/conv1d.h>
#include <ATen/ops/conv2d.h>
#include <torch/library.h>

#include <vector>

#include "kernels/conv_f32/packed.h"
#include "ops/conv_shape.h"
#include "ops/kernel_call.h"
#include "ops/prepack/packed_weight.h"
#include "ops/registered_op.h"
#include "ops/torch_kernel.h"

namespace cpuaccel::ops {
namespace {

constexpr auto kPackedConvolution = "cpuaccel::packed_convolution";

// The shape of one group's weights.
PackedShape group_shape(int64_t panel, at::IntArrayRef weight, size_t groups) {
  TORCH_CHECK((weight.size() == 3 || weight.size() == 4) && groups >= 1 &&
                  weight[0] % static_cast<int64_t>(groups) == 0,
              kPackedConvolution, ": expected weight to be the sizes of a convolution's weight of ",
              groups, " groups, but got ", weight);
  return {panel, weight[0] / static_cast<int64_t>(groups), c10::multiply_integers(weight.slice(1))};
}

kernels::ImageLayout layout_of(const at::Tensor& input, bool weight_last) {
  const bool last = input.dim() == 4 && (weight_last || input.suggest_memory_format() ==
                                                            at::MemoryFormat::ChannelsLast);
  return last ? kernels::ImageLayout::channels_last : kernels::ImageLayout::channels_first;
}

const char* fallback_reason(const std::vector<PackedView>& views, bool usual) {
  if (const char* reason = views.front().fallback_reason()) {
    return reason;
  }
  return usual ? nullptr : "unsupported shape, dtype or layout of input or bias";
}

at::Tensor packed_convolution(CPUACCEL_PACKED_CONVOLUTION_ARGUMENTS) {
  const auto shape_of_group = group_shape(panel, weight, packed.size());
  std::vector<PackedView> views;
  views.reserve(packed.size());
  for (const at::Tensor& part : packed) {
    TORCH_CHECK(part.scalar_type() == at::kFloat, kPackedConvolution, ": expected packed to be of ",
                at::kFloat, ", but got ", part.scalar_type());
    views.emplace_back(kPackedConvolution, part, shape_of_group);
  }
  TORCH_CHECK(groups == static_cast<int64_t>(packed.size()), kPackedConvolution,
              ": expected packed to have a tensor for each of ", groups, " groups, but got ",
              packed.size());
  const auto shape = conv_shape(input, weight, bias, {stride, padding, dilation, groups});
  if (const char* reason = fallback_reason(views, shape.has_value())) {
    report_fallback("packed_convolution", reason);
    return convolution_by_torch(input, packed, panel, weight, bias, stride, padding, dilation,
                                groups, channels_last);
  }
  CPUACCEL_KERNEL_CALL(packed_convolution);
  const auto layout = layout_of(input, channels_last);
  const at::Tensor src = input.contiguous(format_of(layout));
  const at::Tensor row = has_bias(bias) ? bias->contiguous() : at::Tensor();
  at::Tensor dst = conv_result(input, *shape, layout);
  std::vector<kernels::GemmPacked> weights;
  weights.reserve(views.size());
  for (auto& view : views) {
    weights.push_back(std::move(view).take_weights());
  }
  kernels::conv_f32_packed({*shape, layout, src.const_data_ptr<float>(), weights,
                            row.defined() ? row.const_data_ptr<float>() : nullptr,
                            dst.mutable_data_ptr<float>()});
  return dst;
}

}  // namespace

at::Tensor unpack_convolution(at::TensorList packed, int64_t panel, at::IntArrayRef weight,
                              bool channels_last) {
  const auto shape = group_shape(panel, weight, packed.size());
  // Through the dispatcher: in a traced backward the tensors have no values.
  using Signature = at::Tensor(const at::Tensor&, int64_t, int64_t, int64_t);
  static const auto op = registered_op<Signature>("cpuaccel::unpack_linear");
  std::vector<at::Tensor> parts;
  parts.reserve(packed.size());
  for (const at::Tensor& part : packed) {
    parts.push_back(op.call(part, panel, shape.out_features, shape.in_features));
  }
  const at::Tensor all = parts.size() == 1 ? parts.front() : at::cat(parts);
  const at::Tensor plain = all.view(weight);
  return channels_last && plain.dim() == 4 ? plain.contiguous(at::MemoryFormat::ChannelsLast)
                                           : plain;
}

at::Tensor convolution_by_torch(CPUACCEL_PACKED_CONVOLUTION_ARGUMENTS) {
  const at::Tensor plain = unpack_convolution(packed, panel, weight, channels_last);
  return plain.dim() == 3 ? at::conv1d(input, plain, bias, stride, padding, dilation, groups)
                          : at::conv2d(input, plain, bias, stride, padding, dilation, groups);
}

TORCH_LIBRARY_FRAGMENT(cpuaccel, library) {
  library.def(
      "packed_convolution(Tensor input, Tensor[] packed, int panel, int[] weight, Tensor? bias, "
      "int[] stride, int[] padding, int[] dilation, int groups, bool channels_last=False) -> "
      "Tensor");
}

TORCH_LIBRARY_IMPL(cpuaccel, CPU, library) {
  library.impl("packed_convolution", packed_convolution);
}

}  // namespace cpuaccel::ops
