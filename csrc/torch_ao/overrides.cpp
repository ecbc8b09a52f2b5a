#include "torch_ao/overrides.h"

#include <c10/util/Exception.h>

#include <array>
#include <cstring>
#include <string>
#include <typeinfo>
#include <utility>
#include <vector>

#include "base/plugin.h"
#include "torch_ao/conv_params.h"
#include "torch_ao/engine.h"
#include "torch_ao/linear_params.h"
#include "torch_ao/names.h"

namespace cpuaccel::torch_ao {
namespace {

using c10::intrusive_ptr;
using Ints = torch::List<int64_t>;
using OptionalTensor = std::optional<at::Tensor>;

std::vector<int64_t> vec(const Ints& list) { return list.vec(); }

// Calls torch's kernel of a prepack op.
template <typename Params, typename... Arguments>
intrusive_ptr<Params> torch_prepack(const char* name, Arguments&&... arguments) {
  return call_torch(name, std::forward<Arguments>(arguments)...).template toCustomClass<Params>();
}

template <OpName kName>
intrusive_ptr<LinearPackedParamsBase> linear_prepack(at::Tensor weight, OptionalTensor bias) {
  if (engine_is_replaced()) {
    std::string reason;
    if (auto params = LinearParams::create(weight, bias, reason)) {
      return params;
    }
    report_fallback(kName.text, reason);
  }
  return torch_prepack<LinearPackedParamsBase>(kName.text, std::move(weight), std::move(bias));
}

template <OpName kName, int kSpatial>
intrusive_ptr<ConvPackedParamsBase<kSpatial>> conv_prepack(at::Tensor weight, OptionalTensor bias,
                                                           Ints stride, Ints padding, Ints dilation,
                                                           int64_t groups) {
  if (engine_is_replaced()) {
    std::string reason;
    const ConvParameters parameters{vec(stride),   vec(padding), std::vector<int64_t>(kSpatial, 0),
                                    vec(dilation), groups,       false};
    if (auto params = ConvParams<kSpatial>::create(weight, bias, parameters, reason)) {
      return params;
    }
    report_fallback(kName.text, reason);
  }
  return torch_prepack<ConvPackedParamsBase<kSpatial>>(kName.text, weight, bias, stride, padding,
                                                       dilation, groups);
}

template <OpName kName, int kSpatial>
intrusive_ptr<ConvPackedParamsBase<kSpatial>> conv_transpose_prepack(
    at::Tensor weight, OptionalTensor bias, Ints stride, Ints padding, Ints output_padding,
    Ints dilation, int64_t groups) {
  if (engine_is_replaced()) {
    std::string reason;
    const ConvParameters parameters{vec(stride),   vec(padding), vec(output_padding),
                                    vec(dilation), groups,       true};
    if (auto params = ConvParams<kSpatial>::create(weight, bias, parameters, reason)) {
      return params;
    }
    report_fallback(kName.text, reason);
  }
  return torch_prepack<ConvPackedParamsBase<kSpatial>>(kName.text, weight, bias, stride, padding,
                                                       output_padding, dilation, groups);
}

// torch packs conv1d as conv2d with one row: it prepends a dimension of 1 and neutral values. A
// list that already has a value for the row stays as it is: nn.quantized.Conv1d passes two zeros as
// padding if it pads by reflection itself.
std::vector<int64_t> with_row(const Ints& list, int64_t neutral) {
  auto values = vec(list);
  if (values.size() > 1) {
    return values;
  }
  values.insert(values.begin(), neutral);
  return values;
}

template <OpName kName>
intrusive_ptr<ConvPackedParamsBase<2>> conv1d_prepack(at::Tensor weight, OptionalTensor bias,
                                                      Ints stride, Ints padding, Ints dilation,
                                                      int64_t groups) {
  if (engine_is_replaced() && weight.dim() == 3) {
    std::string reason;
    const ConvParameters parameters{
        with_row(stride, 1), with_row(padding, 0), {0, 0}, with_row(dilation, 1), groups, false};
    if (auto params = ConvParams<2>::create(weight.unsqueeze(2), bias, parameters, reason)) {
      return params;
    }
    report_fallback(kName.text, reason);
  }
  return torch_prepack<ConvPackedParamsBase<2>>(kName.text, weight, bias, stride, padding, dilation,
                                                groups);
}

template <OpName kName>
intrusive_ptr<ConvPackedParamsBase<2>> conv_transpose1d_prepack(at::Tensor weight,
                                                                OptionalTensor bias, Ints stride,
                                                                Ints padding, Ints output_padding,
                                                                Ints dilation, int64_t groups) {
  if (engine_is_replaced() && weight.dim() == 3) {
    std::string reason;
    const ConvParameters parameters{with_row(stride, 1),
                                    with_row(padding, 0),
                                    with_row(output_padding, 0),
                                    with_row(dilation, 1),
                                    groups,
                                    true};
    if (auto params = ConvParams<2>::create(weight.unsqueeze(2), bias, parameters, reason)) {
      return params;
    }
    report_fallback(kName.text, reason);
  }
  return torch_prepack<ConvPackedParamsBase<2>>(kName.text, weight, bias, stride, padding,
                                                output_padding, dilation, groups);
}

// torch's fused ops cast the packed object to a class of the onednn engine without a check, and
// crash on an object of another engine. Those classes are not exported, so this compares type
// names.
template <typename Params>
void check_onednn_object(const char* op, const intrusive_ptr<Params>& packed_weight) {
  if (at::globalContext().qEngine() != at::QEngine::ONEDNN) {
    return;  // torch reports this itself
  }
  const auto& object = *packed_weight;
  const char* name = typeid(object).name();
  TORCH_CHECK(
      std::strstr(name, "Onednn") != nullptr || std::strstr(name, "ACL") != nullptr, op,
      ": expected packed_weight to be packed by the onednn engine, which is set, but it was "
      "packed by another one");
}

// The packed object to pass to torch's fused op: torch's object for the same weights if `params` is
// one of cpuaccel's, else `packed_weight` itself.
template <typename Params, typename CpuaccelParams>
intrusive_ptr<Params> torchs_object(const char* op, const intrusive_ptr<Params>& packed_weight,
                                    CpuaccelParams* params) {
  if (params != nullptr) {
    return params->torch_params();
  }
  check_onednn_object(op, packed_weight);
  if (plugin_on()) {
    report_fallback(op, "weights packed by another engine");
  }
  return packed_weight;
}

template <OpName kName, bool kRelu>
at::Tensor conv2d_add(at::Tensor qx, at::Tensor qaccum,
                      const intrusive_ptr<ConvPackedParamsBase<2>>& packed_weight,
                      double output_scale, int64_t output_zero_point) {
  auto* params = dynamic_cast<ConvParams<2>*>(packed_weight.get());
  if (params != nullptr && plugin_on()) {
    return params->apply_add(qx, qaccum, output_scale, output_zero_point, kRelu);
  }
  const auto theirs = torchs_object(kName.text, packed_weight, params);
  return call_torch(kName.text, qx, qaccum, theirs, output_scale, output_zero_point).toTensor();
}

template <OpName kName>
at::Tensor linear_leaky_relu(at::Tensor X,
                             const intrusive_ptr<LinearPackedParamsBase>& packed_weight,
                             double output_scale, int64_t output_zero_point,
                             double negative_slope) {
  auto* params = dynamic_cast<LinearParams*>(packed_weight.get());
  if (params != nullptr && plugin_on()) {
    return params->apply_leaky_relu(X, output_scale, output_zero_point, negative_slope);
  }
  const auto theirs = torchs_object(kName.text, packed_weight, params);
  return call_torch(kName.text, X, theirs, output_scale, output_zero_point, negative_slope)
      .toTensor();
}

template <OpName kName>
at::Tensor linear_tanh(at::Tensor X, const intrusive_ptr<LinearPackedParamsBase>& packed_weight,
                       double output_scale, int64_t output_zero_point) {
  auto* params = dynamic_cast<LinearParams*>(packed_weight.get());
  if (params != nullptr && plugin_on()) {
    return params->apply_tanh(X, output_scale, output_zero_point);
  }
  const auto theirs = torchs_object(kName.text, packed_weight, params);
  return call_torch(kName.text, X, theirs, output_scale, output_zero_point).toTensor();
}

// The overridden ops, all under the key QuantizedCPU: op, function, and the template arguments that
// come after the name.
#define ROW(name, ...) CPUACCEL_OVERRIDE(name, c10::DispatchKey::QuantizedCPU, __VA_ARGS__)
constexpr std::array kPrepacks{
    ROW("quantized::linear_prepack", linear_prepack),
    ROW("quantized::conv_prepack", conv_prepack, 2),
    ROW("quantized::conv1d_prepack", conv1d_prepack),
    ROW("quantized::conv2d_prepack", conv_prepack, 2),
    ROW("quantized::conv3d_prepack", conv_prepack, 3),
    ROW("quantized::conv_transpose1d_prepack", conv_transpose1d_prepack),
    ROW("quantized::conv_transpose2d_prepack", conv_transpose_prepack, 2),
    ROW("quantized::conv_transpose3d_prepack", conv_transpose_prepack, 3),
    ROW("_quantized::linear_prepack", linear_prepack),
    ROW("_quantized::conv2d_prepack", conv_prepack, 2),
    ROW("_quantized::conv3d_prepack", conv_prepack, 3),
    ROW("_quantized::conv_transpose1d_prepack", conv_transpose1d_prepack),
    ROW("_quantized::conv_transpose2d_prepack", conv_transpose_prepack, 2),
    ROW("_quantized::conv_transpose3d_prepack", conv_transpose_prepack, 3),
};
constexpr std::array kCasting{
    ROW("quantized::conv2d_add", conv2d_add, false),
    ROW("quantized::conv2d_add_relu", conv2d_add, true),
    ROW("quantized::linear_leaky_relu", linear_leaky_relu),
    ROW("quantized::linear_tanh", linear_tanh),
};
#undef ROW

}  // namespace

std::span<const ops::Override> prepack_overrides() { return kPrepacks; }
std::span<const ops::Override> casting_overrides() { return kCasting; }

}  // namespace cpuaccel::torch_ao
