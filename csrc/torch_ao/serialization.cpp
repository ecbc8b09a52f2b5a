#include "torch_ao/serialization.h"

#include <torch/custom_class.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/counters.h"
#include "torch_ao/conv_params.h"
#include "torch_ao/engine.h"
#include "torch_ao/linear_params.h"

namespace cpuaccel::torch_ao {
namespace {

constexpr auto kMethod = "__setstate__";

// The outcome for a saved state: not understood, an object of cpuaccel's, or None if no provider
// takes the weight and torch loads it.
struct Loaded {
  bool understood = false;
  c10::IValue capsule;
};
using Load = Loaded (*)(const c10::IValue& state);

Loaded loaded_by_torch(const char* op, const std::string& reason) {
  count_fallback(op, reason);
  return {true, {}};
}

Loaded linear_from_state(const c10::IValue& state) {
  if (!state.isTuple() || state.toTupleRef().elements().size() != 2) {
    return {};
  }
  const auto& elements = state.toTupleRef().elements();
  if (!elements[0].isTensor() || elements[0].toTensor().scalar_type() != at::kQInt8) {
    return {};  // fp16 weights are saved as float; torch reads them and any other form
  }
  std::string reason;
  auto params =
      LinearParams::create(elements[0].toTensor(), elements[1].toOptional<at::Tensor>(), reason);
  if (!params) {
    return loaded_by_torch("linear __setstate__", reason);
  }
  return {true, c10::IValue::make_capsule(
                    c10::static_intrusive_pointer_cast<LinearPackedParamsBase>(std::move(params)))};
}

template <int kSpatial>
Loaded packed_conv(const at::Tensor& weight, const std::optional<at::Tensor>& bias,
                   const ConvParameters& parameters) {
  std::string reason;
  auto params = ConvParams<kSpatial>::create(weight, bias, parameters, reason);
  if (!params) {
    return loaded_by_torch("conv __setstate__", reason);
  }
  return {
      true,
      c10::IValue::make_capsule(
          c10::static_intrusive_pointer_cast<ConvPackedParamsBase<kSpatial>>(std::move(params)))};
}

// The form torch has written since 1.6: ("2", [config, weight], [bias or None]), where config is
// [spatial, stride, padding, dilation, output_padding, groups, transposed] as integers.
template <int kSpatial>
Loaded conv_from_state(const c10::IValue& state) {
  if (!state.isTuple() || state.toTupleRef().elements().size() != 3) {
    return {};
  }
  const auto& elements = state.toTupleRef().elements();
  if (!elements[0].isString() || elements[0].toStringRef() != "2" || !elements[1].isList() ||
      !elements[2].isList()) {
    return {};
  }
  const auto tensors = elements[1].toListRef();
  const auto optional = elements[2].toListRef();
  if (tensors.size() != 2 || !tensors[0].isTensor() || !tensors[1].isTensor() ||
      optional.size() != 1) {
    return {};
  }
  const at::Tensor config = tensors[0].toTensor().to(at::kLong).contiguous();
  if (config.dim() != 1 || config.numel() != 1 + 4 * kSpatial + 2 ||
      config.const_data_ptr<int64_t>()[0] != kSpatial) {
    return {};
  }
  const int64_t* next = config.const_data_ptr<int64_t>() + 1;
  auto take = [&next] {
    std::vector<int64_t> values(next, next + kSpatial);
    next += kSpatial;
    return values;
  };
  ConvParameters parameters;
  parameters.stride = take();
  parameters.padding = take();
  parameters.dilation = take();
  parameters.output_padding = take();
  parameters.groups = *next++;
  parameters.transposed = *next != 0;
  return packed_conv<kSpatial>(tensors[1].toTensor(), optional[0].toOptional<at::Tensor>(),
                               parameters);
}

// Older or newer forms: torch reads them, and its packed object is repacked.
template <int kSpatial>
Loaded conv_from_torch(const c10::IValue& capsule) {
  const auto torchs =
      c10::static_intrusive_pointer_cast<ConvPackedParamsBase<kSpatial>>(capsule.toCapsule());
  const auto [weight, bias] = torchs->unpack();
  const ConvParameters parameters{
      torchs->stride().vec(),   torchs->padding().vec(), torchs->output_padding().vec(),
      torchs->dilation().vec(), torchs->groups(),        torchs->transpose()};
  return packed_conv<kSpatial>(weight, bias, parameters);
}

struct Replacement {
  const char* class_name;
  Load from_state;
  // The same from a packed object that torch has made; null: that object stays.
  Load from_torch;
  c10::ClassTypePtr type;
  torch::jit::Function* torch_method = nullptr;
  std::unique_ptr<torch::jit::BuiltinOpFunction> cpuaccel_method;
};

std::vector<Replacement>& replacements() {
  static auto& rows = *[] {
    auto list = std::make_unique<std::vector<Replacement>>();
    list->push_back({"__torch__.torch.classes.quantized.LinearPackedParamsBase", linear_from_state,
                     nullptr, nullptr, nullptr, nullptr});
    list->push_back({"__torch__.torch.classes.quantized.Conv2dPackedParamsBase", conv_from_state<2>,
                     conv_from_torch<2>, nullptr, nullptr, nullptr});
    list->push_back({"__torch__.torch.classes.quantized.Conv3dPackedParamsBase", conv_from_state<3>,
                     conv_from_torch<3>, nullptr, nullptr, nullptr});
    return list.release();
  }();
  return rows;
}

// Stack: the object to fill, its state. Leaves None, as torch's method does.
void set_state(const Replacement& row, torch::jit::Stack& stack) {
  if (!engine_is_replaced()) {
    row.torch_method->run(stack);
    return;
  }
  const auto object = stack[stack.size() - 2].toObject();
  Loaded loaded = row.from_state(stack.back());
  if (!loaded.capsule.isNone()) {
    torch::jit::drop(stack, 2);
    object->setSlot(0, std::move(loaded.capsule));
    stack.emplace_back();
    return;
  }
  row.torch_method->run(stack);
  if (!loaded.understood && row.from_torch != nullptr) {
    loaded = row.from_torch(object->getSlot(0));
    if (!loaded.capsule.isNone()) {
      object->setSlot(0, std::move(loaded.capsule));
    }
  }
}

void prepare(Replacement& row) {
  row.type = torch::getCustomClass(row.class_name);
  TORCH_CHECK(row.type, "torch has no class ", row.class_name);
  row.torch_method = &row.type->getMethod(kMethod);
  row.cpuaccel_method = std::make_unique<torch::jit::BuiltinOpFunction>(
      c10::QualifiedName(std::string(row.class_name) + "." + kMethod),
      row.torch_method->getSchema(), [&row](torch::jit::Stack& stack) { set_state(row, stack); });
}

void put(Replacement& row, torch::jit::Function* method) {
  row.type->unsafeRemoveMethod(kMethod);
  row.type->addMethod(method);
}

}  // namespace

void replace_setstate() {
  for (auto& row : replacements()) {
    if (!row.cpuaccel_method) {
      prepare(row);
    }
    put(row, row.cpuaccel_method.get());
  }
}

void restore_setstate() {
  for (auto& row : replacements()) {
    put(row, row.torch_method);
  }
}

}  // namespace cpuaccel::torch_ao
