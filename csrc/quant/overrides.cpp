// The ops of torch's quantized namespace that get a kernel of ours, and their torch kernels.

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <c10/util/Exception.h>
#include <torch/library.h>

#include <array>
#include <atomic>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <type_traits>
#include <typeinfo>
#include <utility>
#include <vector>

#include "base/counters.h"
#include "base/fork.h"
#include "base/log.h"
#include "base/parallel.h"
#include "quant/conv_params.h"
#include "quant/linear_params.h"
#include "quant/providers.h"
#include "quant/serialization.h"
#include "quant/switch.h"
#include "quant/torch_kernels.h"

namespace cpuaccel::quant {
namespace {

using c10::intrusive_ptr;
using Ints = torch::List<int64_t>;
using OptionalTensor = std::optional<at::Tensor>;

// An op's name as a template argument, so that each override knows what it stands over.
struct OpName {
  char text[48]{};
  template <size_t kSize>
  consteval OpName(const char (&name)[kSize]) {  // NOLINT: implicit, to be written as a literal
    static_assert(kSize <= sizeof(text));
    for (size_t i = 0; i < kSize; ++i) {
      text[i] = name[i];
    }
  }
};

bool x86_engine() { return at::globalContext().qEngine() == at::QEngine::X86; }

std::vector<int64_t> vec(const Ints& list) { return list.vec(); }

// Hands the arguments of a prepack op to torch's kernel.
template <typename Params, typename... Arguments>
intrusive_ptr<Params> torch_prepack(const char* name, Arguments&&... arguments) {
  torch::jit::Stack stack;
  torch::jit::push(stack, std::forward<Arguments>(arguments)...);
  torch_kernel(name).call(stack);
  return stack.back().toCustomClass<Params>();
}

void count_refusal(const char* name, const std::string& reason) {
  count_fallback(name, reason);
  if (log_enabled()) {
    log_decision(std::string(name) + " -> torch: " + reason);
  }
}

template <OpName kName>
intrusive_ptr<LinearPackedParamsBase> linear_prepack(at::Tensor weight, OptionalTensor bias) {
  if (x86_engine()) {
    std::string reason;
    if (auto params = LinearParams::create(weight, bias, reason)) {
      return params;
    }
    count_refusal(kName.text, reason);
  }
  return torch_prepack<LinearPackedParamsBase>(kName.text, std::move(weight), std::move(bias));
}

template <OpName kName, int kSpatial>
intrusive_ptr<ConvPackedParamsBase<kSpatial>> conv_prepack(at::Tensor weight, OptionalTensor bias,
                                                           Ints stride, Ints padding, Ints dilation,
                                                           int64_t groups) {
  if (x86_engine()) {
    std::string reason;
    const ConvParameters parameters{vec(stride),   vec(padding), std::vector<int64_t>(kSpatial, 0),
                                    vec(dilation), groups,       false};
    if (auto params = ConvParams<kSpatial>::create(weight, bias, parameters, reason)) {
      return params;
    }
    count_refusal(kName.text, reason);
  }
  return torch_prepack<ConvPackedParamsBase<kSpatial>>(kName.text, weight, bias, stride, padding,
                                                       dilation, groups);
}

template <OpName kName, int kSpatial>
intrusive_ptr<ConvPackedParamsBase<kSpatial>> conv_transpose_prepack(
    at::Tensor weight, OptionalTensor bias, Ints stride, Ints padding, Ints output_padding,
    Ints dilation, int64_t groups) {
  if (x86_engine()) {
    std::string reason;
    const ConvParameters parameters{vec(stride),   vec(padding), vec(output_padding),
                                    vec(dilation), groups,       true};
    if (auto params = ConvParams<kSpatial>::create(weight, bias, parameters, reason)) {
      return params;
    }
    count_refusal(kName.text, reason);
  }
  return torch_prepack<ConvPackedParamsBase<kSpatial>>(kName.text, weight, bias, stride, padding,
                                                       output_padding, dilation, groups);
}

// torch packs conv1d as conv2d over one row: a dimension of 1, and neutral values, come first. A
// list that has a value for the row already is left alone: nn.quantized.Conv1d passes two zeros as
// padding where it pads by reflection itself.
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
  if (x86_engine() && weight.dim() == 3) {
    std::string reason;
    const ConvParameters parameters{
        with_row(stride, 1), with_row(padding, 0), {0, 0}, with_row(dilation, 1), groups, false};
    if (auto params = ConvParams<2>::create(weight.unsqueeze(2), bias, parameters, reason)) {
      return params;
    }
    count_refusal(kName.text, reason);
  }
  return torch_prepack<ConvPackedParamsBase<2>>(kName.text, weight, bias, stride, padding, dilation,
                                                groups);
}

template <OpName kName>
intrusive_ptr<ConvPackedParamsBase<2>> conv_transpose1d_prepack(at::Tensor weight,
                                                                OptionalTensor bias, Ints stride,
                                                                Ints padding, Ints output_padding,
                                                                Ints dilation, int64_t groups) {
  if (x86_engine() && weight.dim() == 3) {
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
    count_refusal(kName.text, reason);
  }
  return torch_prepack<ConvPackedParamsBase<2>>(kName.text, weight, bias, stride, padding,
                                                output_padding, dilation, groups);
}

// Torch's fused ops cast what they are given to the onednn engine's classes without a check, and
// die of another engine's. Those classes are not exported, so their names have to tell.
template <typename Params>
void check_onednn_object(const char* op, const intrusive_ptr<Params>& packed_weight) {
  if (at::globalContext().qEngine() != at::QEngine::ONEDNN) {
    return;  // torch refuses by itself
  }
  const auto& object = *packed_weight;
  TORCH_CHECK(
      std::strstr(typeid(object).name(), "Onednn") != nullptr, op,
      ": expected packed_weight to be packed by the onednn engine, which is set, but it was "
      "packed by another one");
}

template <OpName kName, bool kRelu>
at::Tensor conv2d_add(at::Tensor qx, at::Tensor qaccum,
                      const intrusive_ptr<ConvPackedParamsBase<2>>& packed_weight,
                      double output_scale, int64_t output_zero_point) {
  if (auto* params = dynamic_cast<ConvParams<2>*>(packed_weight.get())) {
    return params->apply_add(qx, qaccum, output_scale, output_zero_point, kRelu);
  }
  check_onednn_object(kName.text, packed_weight);
  count_refusal(kName.text, "weights packed by another engine");
  torch::jit::Stack stack;
  torch::jit::push(stack, qx, qaccum, packed_weight, output_scale, output_zero_point);
  torch_kernel(kName.text).call(stack);
  return stack.back().toTensor();
}

template <OpName kName>
at::Tensor linear_leaky_relu(at::Tensor X,
                             const intrusive_ptr<LinearPackedParamsBase>& packed_weight,
                             double output_scale, int64_t output_zero_point,
                             double negative_slope) {
  if (auto* params = dynamic_cast<LinearParams*>(packed_weight.get())) {
    return params->apply_leaky_relu(X, output_scale, output_zero_point, negative_slope);
  }
  check_onednn_object(kName.text, packed_weight);
  count_refusal(kName.text, "weights packed by another engine");
  torch::jit::Stack stack;
  torch::jit::push(stack, X, packed_weight, output_scale, output_zero_point, negative_slope);
  torch_kernel(kName.text).call(stack);
  return stack.back().toTensor();
}

template <OpName kName>
at::Tensor linear_tanh(at::Tensor X, const intrusive_ptr<LinearPackedParamsBase>& packed_weight,
                       double output_scale, int64_t output_zero_point) {
  if (auto* params = dynamic_cast<LinearParams*>(packed_weight.get())) {
    return params->apply_tanh(X, output_scale, output_zero_point);
  }
  check_onednn_object(kName.text, packed_weight);
  count_refusal(kName.text, "weights packed by another engine");
  torch::jit::Stack stack;
  torch::jit::push(stack, X, packed_weight, output_scale, output_zero_point);
  torch_kernel(kName.text).call(stack);
  return stack.back().toTensor();
}

struct Override {
  const char* name;
  torch::CppFunction (*function)();
};

template <auto kFunction>
torch::CppFunction as_cpp_function() {
  return torch::CppFunction(
      c10::CompileTimeFunctionPointer<std::remove_pointer_t<decltype(kFunction)>, kFunction>());
}

// All ops we take, under the key QuantizedCPU: op, function, its template arguments after the name.
#define ROW(name, function, ...) \
  Override { name, as_cpp_function<&function<name __VA_OPT__(, ) __VA_ARGS__>> }
constexpr std::array kOverrides{
    ROW("quantized::linear_prepack", linear_prepack),
    ROW("quantized::conv_prepack", conv_prepack, 2),
    ROW("quantized::conv1d_prepack", conv1d_prepack),
    ROW("quantized::conv2d_prepack", conv_prepack, 2),
    ROW("quantized::conv3d_prepack", conv_prepack, 3),
    ROW("quantized::conv_transpose1d_prepack", conv_transpose1d_prepack),
    ROW("quantized::conv_transpose2d_prepack", conv_transpose_prepack, 2),
    ROW("quantized::conv_transpose3d_prepack", conv_transpose_prepack, 3),
    ROW("quantized::conv2d_add", conv2d_add, false),
    ROW("quantized::conv2d_add_relu", conv2d_add, true),
    ROW("quantized::linear_leaky_relu", linear_leaky_relu),
    ROW("quantized::linear_tanh", linear_tanh),
    ROW("_quantized::linear_prepack", linear_prepack),
    ROW("_quantized::conv2d_prepack", conv_prepack, 2),
    ROW("_quantized::conv3d_prepack", conv_prepack, 3),
    ROW("_quantized::conv_transpose1d_prepack", conv_transpose1d_prepack),
    ROW("_quantized::conv_transpose2d_prepack", conv_transpose_prepack, 2),
    ROW("_quantized::conv_transpose3d_prepack", conv_transpose_prepack, 3),
};
#undef ROW

void at_parallel_for(int64_t begin, int64_t end, int64_t grain_size, const RangeBody& body) {
  at::parallel_for(begin, end, grain_size, body);
}

struct SwitchState {
  std::mutex& mutex = fork_safe_mutex(ForkLevel::params, this);
  std::atomic<bool> on{false};
  std::map<std::string, TorchKernel, std::less<>> torch_kernels;
  std::vector<std::unique_ptr<torch::Library>> libraries;
};

// Never destroyed: ops run while the process exits.
SwitchState& state() {
  static auto& instance = *std::make_unique<SwitchState>().release();
  return instance;
}

// torch warns once per process when a kernel is put over another; here that is the purpose.
class QuietWarnings final : public c10::WarningHandler {
 public:
  void process(const c10::Warning& /*warning*/) override {}
};

void register_overrides(SwitchState& s) {
  QuietWarnings quiet;
  const c10::WarningUtils::WarningHandlerGuard guard(&quiet);
  for (const char* space : {"quantized", "_quantized"}) {
    s.libraries.push_back(std::make_unique<torch::Library>(
        torch::Library::IMPL, space, c10::DispatchKey::QuantizedCPU, __FILE__, __LINE__));
  }
  for (const auto& row : kOverrides) {
    auto& library = *s.libraries[row.name[0] == '_' ? 1 : 0];
    library.impl(row.name, row.function());
  }
}

}  // namespace

const TorchKernel& torch_kernel(std::string_view name) {
  const auto& kernels = state().torch_kernels;
  const auto found = kernels.find(name);
  TORCH_INTERNAL_ASSERT(found != kernels.end(), "no torch kernel was kept for ", name);
  return found->second;
}

bool plugin_on() { return state().on.load(std::memory_order_relaxed); }

bool switch_on() {
  auto& s = state();
  const std::scoped_lock lock(s.mutex);
  if (s.on.load()) {
    return true;
  }
  if (!provider_available(Provider::onednn) && !provider_available(Provider::fbgemm)) {
    return false;
  }
  set_parallel_for(at_parallel_for);
  if (s.torch_kernels.empty()) {
    for (const auto& row : kOverrides) {
      s.torch_kernels.emplace(row.name, TorchKernel(row.name, c10::DispatchKey::QuantizedCPU));
    }
  }
  register_overrides(s);
  replace_setstate();
  s.on.store(true);
  return true;
}

void switch_off() {
  auto& s = state();
  const std::scoped_lock lock(s.mutex);
  if (!s.on.load()) {
    return;
  }
  s.on.store(false);
  restore_setstate();
  s.libraries.clear();
}

}  // namespace cpuaccel::quant
