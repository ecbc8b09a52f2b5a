#include "torch_ao/torch_kernels.h"

#include "torch_ao/engine.h"
#include "torch_ao/names.h"

#ifdef CPUACCEL_HAS_FBGEMM
#include "torch_ao/torch_compat_fbgemm.h"
#endif

namespace cpuaccel::torch_ao {
namespace {

c10::List<int64_t> list_of(const std::array<int64_t, 3>& values, int count) {
  return c10::List<int64_t>(c10::IntArrayRef(values.data(), static_cast<size_t>(count)));
}

}  // namespace

c10::intrusive_ptr<LinearPackedParamsBase> torch_linear_prepack(
    const at::Tensor& weight, const std::optional<at::Tensor>& bias) {
#ifdef CPUACCEL_HAS_FBGEMM
  return PackedLinearWeight::prepack(weight, bias);  // torch's x86 engine has no other linear
#else
  return call_torch("quantized::linear_prepack", weight, bias)
      .toCustomClass<LinearPackedParamsBase>();
#endif
}

template <int kSpatial>
c10::intrusive_ptr<ConvPackedParamsBase<kSpatial>> torch_conv_prepack(
    const at::Tensor& weight, const std::optional<at::Tensor>& bias, const LayerShape& shape) {
  const bool transposed = shape.kind == LayerKind::conv_transpose;
  const auto stride = list_of(shape.stride, kSpatial);
  const auto padding = list_of(shape.padding, kSpatial);
  const auto output_padding = list_of(shape.output_padding, kSpatial);
  const auto dilation = list_of(shape.dilation, kSpatial);
#ifdef CPUACCEL_HAS_FBGEMM
  // torch's prepack op packs for the engine that is set. If that is not x86, the weights of an x86
  // model still belong to FBGEMM.
  if (!engine_is_replaced()) {
    return PackedConvWeight<kSpatial>::prepack(weight, bias, stride, padding, output_padding,
                                               dilation, shape.groups, transposed);
  }
#endif
  torch::jit::Stack stack{weight, bias, stride, padding};
  if (transposed) {
    stack.emplace_back(output_padding);
  }
  stack.emplace_back(dilation);
  stack.emplace_back(shape.groups);
  const char* name =
      transposed ? (kSpatial == 2 ? "quantized::conv_transpose2d_prepack"
                                  : "quantized::conv_transpose3d_prepack")
                 : (kSpatial == 2 ? "quantized::conv2d_prepack" : "quantized::conv3d_prepack");
  torch_kernel(name).call(stack);
  return stack.back().toCustomClass<ConvPackedParamsBase<kSpatial>>();
}

template c10::intrusive_ptr<ConvPackedParamsBase<2>> torch_conv_prepack<2>(
    const at::Tensor&, const std::optional<at::Tensor>&, const LayerShape&);
template c10::intrusive_ptr<ConvPackedParamsBase<3>> torch_conv_prepack<3>(
    const at::Tensor&, const std::optional<at::Tensor>&, const LayerShape&);

}  // namespace cpuaccel::torch_ao
