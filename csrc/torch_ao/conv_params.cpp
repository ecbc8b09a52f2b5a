#include "torch_ao/conv_params.h"
#include "base/plugin.h"

#include <ATen/Functions.h>

#include <algorithm>
#include <utility>

#include "quant/source.h"
#include "torch_ao/float_path.h"
#include "torch_ao/quantized_checks.h"
#include "torch_ao/quint8.h"
#include "torch_ao/torch_kernels.h"

namespace cpuaccel::torch_ao {
namespace {

template <int kSpatial>
constexpr at::MemoryFormat kChannelsLast =
    kSpatial == 2 ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::ChannelsLast3d;

// torch's own bound on one dimension of a transposed convolution's result.
constexpr int64_t kMostDstSize = 1000000;

}  // namespace

template <int kSpatial>
c10::intrusive_ptr<ConvParams<kSpatial>> ConvParams<kSpatial>::create(
    const at::Tensor& weight, const std::optional<at::Tensor>& bias,
    const ConvParameters& parameters, std::string& reason) {
  auto layer = PackedLayer::convolution(weight, bias, parameters, kSpatial, reason);
  return layer ? c10::make_intrusive<ConvParams>(std::move(*layer)) : nullptr;
}

template <int kSpatial>
torch::List<int64_t> ConvParams<kSpatial>::list(const std::array<int64_t, 3>& values) {
  return torch::List<int64_t>(c10::IntArrayRef(values.data(), kSpatial));
}

template <int kSpatial>
const char* ConvParams<kSpatial>::op_title() const {
  if (transpose()) {
    return kSpatial == 2 ? "quantized::conv_transpose2d" : "quantized::conv_transpose3d";
  }
  return kSpatial == 2 ? "quantized::conv2d" : "quantized::conv3d";
}

template <int kSpatial>
void ConvParams<kSpatial>::check_input(const at::Tensor& input) const {
  const auto& shape = layer_->shape();
  check_activation(op_title(), "activation", input);
  TORCH_CHECK(input.dim() == kSpatial + 2, op_title(), "(): Expected activation tensor to have ",
              kSpatial + 2, " dimensions, got ", input.dim());
  TORCH_CHECK(input.size(1) == shape.IC, op_title(), ": Given groups=", shape.groups,
              ", weight of ", shape.to_string(), ", expected input ", input.sizes(), " to have ",
              shape.IC, " channels, but got ", input.size(1), " channels instead");
}

template <int kSpatial>
void ConvParams<kSpatial>::check_transposed_output(const std::array<int64_t, 3>& dst) const {
  const auto& shape = layer_->shape();
  for (size_t i = 0; i < kSpatial; ++i) {
    const char* what = dst[i] <= 0              ? "is zero"
                       : dst[i] >= kMostDstSize ? "is beyond reasonable maximum"
                                                : nullptr;
    TORCH_CHECK(what == nullptr, op_title(), ": Output dimension ", what, " for ", i, " axis; got ",
                dst[i], ", kernel: ", shape.kernel[i], ", stride: ", shape.stride[i],
                ", input padding: ", shape.padding[i],
                ", output padding: ", shape.output_padding[i], ", dilation: ", shape.dilation[i]);
  }
}

template <int kSpatial>
at::Tensor ConvParams<kSpatial>::run(Op op, const at::Tensor& input, const at::Tensor* accum,
                                     double output_scale, int64_t output_zero_point, PostOp post,
                                     const TensorPostOps* post_ops) {
  check_input(input);
  const auto dtype = input.scalar_type();
  check_output_quantizer(op_title(), output_scale, output_zero_point, "output_", dtype);
  const auto& shape = layer_->shape();
  QuantCall call;
  at::DimVector sizes{input.size(0), shape.OC};
  for (size_t i = 0; i < kSpatial; ++i) {
    call.src_dims[i] = input.size(static_cast<int64_t>(i) + 2);
  }
  call.dst_dims = shape.dst_dims(call.src_dims);
  sizes.append(call.dst_dims.begin(), call.dst_dims.begin() + kSpatial);
  const int64_t images = input.size(0);
  if (transpose()) {
    check_transposed_output(call.dst_dims);
  }
  TORCH_CHECK(images == 0 || std::ranges::all_of(call.dst_dims, [](int64_t d) { return d > 0; }),
              op_title(), ": each dimension of output tensor should be greater than 0, but input ",
              input.sizes(), " gives ", sizes);
  for (auto& size : sizes) {
    size = std::max<int64_t>(size, 0);
  }
  auto byte_post_ops =
      post_ops != nullptr ? post_ops->byte_post_ops(sizes, kChannelsLast<kSpatial>) : std::nullopt;
  if (post_ops != nullptr && !byte_post_ops) {
    return {};
  }
  at::Tensor dst = empty_8bit(sizes, dtype,
                              post_ops != nullptr ? PerTensor{post_ops->scale, post_ops->zero_point}
                                                  : PerTensor{output_scale, output_zero_point},
                              kChannelsLast<kSpatial>);
  if (accum != nullptr) {
    TORCH_CHECK(accum->sizes() == dst.sizes() && accum->scalar_type() == dtype, op_title(),
                ": expected accum to have shape ", dst.sizes(), " and dtype ", toString(dtype),
                ", those of the result, but got ", accum->sizes(), " and ",
                toString(accum->scalar_type()));
    call.sum_scale = static_cast<float>(accum->q_scale());
    call.sum_zero_point = static_cast<int32_t>(accum->q_zero_point());
    const at::Tensor from = accum->contiguous(kChannelsLast<kSpatial>);
    std::copy_n(bytes(from), from.numel(), mutable_bytes(dst));
  }
  if (images == 0) {
    return dst;
  }
  const at::Tensor src = input.contiguous(kChannelsLast<kSpatial>);
  call.src = bytes(src);
  call.s8 = dtype == at::kQInt8;
  const auto src_quantizer = per_tensor(input);
  call.src_scale = static_cast<float>(src_quantizer.scale);
  call.src_zero_point = static_cast<int32_t>(src_quantizer.zero_point);
  call.dst_scale = static_cast<float>(output_scale);
  call.dst_zero_point = static_cast<int32_t>(output_zero_point);
  call.post = post;
  call.byte_post_ops = byte_post_ops ? &*byte_post_ops : nullptr;
  call.dst = mutable_bytes(dst);
  if (layer_->run_slices(op_title(), op, call, images)) {
    return dst;
  }
  if (post_ops != nullptr) {
    return {};
  }
  if (accum != nullptr) {
    at::Tensor real =
        at::empty(sizes, at::TensorOptions(at::kFloat).memory_format(kChannelsLast<kSpatial>));
    call.dst = real.data_ptr<float>();
    call.f32_dst = true;
    call.post = PostOp::none;
    if (layer_->run_slices(op_title(), op, call, images)) {
      count_fallback(op_name(op), kPostInFloat);
      apply_post(real, *accum, post, 0.0);
      return at::quantize_per_tensor(real, output_scale, output_zero_point, dtype);
    }
  }
  const char* why = layer_->needs_float();
  count_fallback(op_name(op), why != nullptr ? why : "no provider supports this call");
  if (accum != nullptr || !layer_.torch_takes()) {
    const auto [weight, bias] = layer_.unpack();
    return run_in_float(shape, weight, bias, input, accum ? *accum : at::Tensor(), post, 0.0,
                        output_scale, output_zero_point);
  }
  return post == PostOp::relu ? torch_params()->apply_relu(input, output_scale, output_zero_point)
                              : torch_params()->apply(input, output_scale, output_zero_point);
}

template <int kSpatial>
at::Tensor ConvParams<kSpatial>::apply(const at::Tensor& input, double output_scale,
                                       int64_t output_zero_point) {
  if (!plugin_on()) {
    return torch_params()->apply(input, output_scale, output_zero_point);
  }
  return run(layer_->op(), input, nullptr, output_scale, output_zero_point, PostOp::none);
}

template <int kSpatial>
at::Tensor ConvParams<kSpatial>::apply_relu(const at::Tensor& input, double output_scale,
                                            int64_t output_zero_point) {
  if (!plugin_on()) {
    return torch_params()->apply_relu(input, output_scale, output_zero_point);
  }
  return run(layer_->op(), input, nullptr, output_scale, output_zero_point, PostOp::relu);
}

template <int kSpatial>
at::Tensor ConvParams<kSpatial>::apply_dynamic(const at::Tensor& input, bool reduce_range) {
  if (!plugin_on()) {
    return torch_params()->apply_dynamic(input, reduce_range);
  }
  TORCH_CHECK(input.device().is_cpu() && input.scalar_type() == at::kFloat, op_title(),
              "_dynamic: expected input to be a CPU tensor of dtype Float, but got ",
              toString(input.scalar_type()), " on ", input.device());
  const at::Tensor src = input.contiguous(input.suggest_memory_format());
  const auto q = quant::dynamic_quantizer(src.const_data_ptr<float>(), src.numel(), reduce_range);
  const at::Tensor quantized = at::quantize_per_tensor(input, q.scale, q.zero_point, at::kQUInt8);
  return run(Op::conv_dynamic, quantized, nullptr, q.scale, q.zero_point, PostOp::none)
      .dequantize();
}

template <int kSpatial>
at::Tensor ConvParams<kSpatial>::apply_add(const at::Tensor& input, const at::Tensor& accum,
                                           double output_scale, int64_t output_zero_point,
                                           bool relu) {
  TORCH_CHECK(!transpose(), op_title(), ": conv2d_add does not support transposed convolution");
  check_activation(op_title(), "accum", accum);
  return run(Op::conv2d_add, input, &accum, output_scale, output_zero_point,
             relu ? PostOp::sum_relu : PostOp::sum);
}

template <int kSpatial>
at::Tensor ConvParams<kSpatial>::apply_with_post_ops(const at::Tensor& input, double conv_scale,
                                                     int64_t conv_zero_point, bool relu,
                                                     const TensorPostOps& post_ops) {
  return run(layer_->op(), input, nullptr, conv_scale, conv_zero_point,
             relu ? PostOp::relu : PostOp::none, &post_ops);
}

template <int kSpatial>
c10::intrusive_ptr<ConvPackedParamsBase<kSpatial>> ConvParams<kSpatial>::torch_params() {
  const std::scoped_lock lock(mutex_);
  if (!torch_params_) {
    const auto [weight, bias] = layer_.unpack();
    torch_params_ = torch_conv_prepack<kSpatial>(weight, bias, layer_->shape());
  }
  return torch_params_;
}

template class ConvParams<2>;
template class ConvParams<3>;

}  // namespace cpuaccel::torch_ao
