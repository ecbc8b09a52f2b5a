// cpuaccel::graph_region_by_torch without Python: runs a region with torch's own ops.
//
// The text comes from cpuaccel/compile/bridge/torch_fallback.py; op_json.py beside it states its
// format. If there is Python, region_op.py registers the same op.

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <ATen/ops/empty_like.h>
#include <c10/core/ScalarType.h>
#include <torch/library.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bind/json.h"

namespace cpuaccel {
namespace {

using c10::IValue;
using Values = std::vector<IValue>;

constexpr auto kOp = "cpuaccel::graph_region_by_torch";

template <typename T, typename Convert>
IValue list_of(const JsonList& list, const Convert& convert) {
  c10::List<T> found;
  for (const auto& each : list) {
    found.push_back(convert(each));
  }
  return found;
}

// torch.float32, torch.strided, torch.channels_last, torch.device("cpu").
IValue constant(const std::string& name) {
  if (name == "cpu") {
    return at::Device(at::kCPU);
  }
  for (const auto& [text, layout] : {std::pair{"strided", at::kStrided}}) {
    if (name == text) {
      return layout;
    }
  }
  for (const auto& [text, format] :
       {std::pair{"contiguous_format", at::MemoryFormat::Contiguous},
        std::pair{"preserve_format", at::MemoryFormat::Preserve},
        std::pair{"channels_last", at::MemoryFormat::ChannelsLast},
        std::pair{"channels_last_3d", at::MemoryFormat::ChannelsLast3d}}) {
    if (name == text) {
      return format;
    }
  }
  for (int i = 0; i < static_cast<int>(at::ScalarType::NumOptions); ++i) {
    const auto type = static_cast<at::ScalarType>(i);
    const auto [first, second] = c10::getDtypeNames(type);
    if (name == first || name == second) {
      return type;
    }
  }
  TORCH_CHECK(false, kOp, ": torch.", name, " is not supported without Python");
}

class Program {
 public:
  Program(Values values, const Json& json) : values_(std::move(values)), json_(json) {}

  std::vector<at::Tensor> run() {
    const auto& parts = json_.get<JsonObject>();
    for (const auto& line : parts.at("ops").get<JsonList>()) {
      const auto& words = line.get<JsonList>();
      values_.push_back(result(words.at(0).get<std::string>(), words.at(1).get<JsonList>(),
                               words.at(2).get<JsonObject>()));
    }
    std::vector<at::Tensor> results;
    for (const auto& output : parts.at("outputs").get<JsonList>()) {
      const auto& words = output.get<JsonList>();
      results.push_back(laid_out(number(words.at(0)).toTensor(), words.at(1).get<bool>()));
    }
    return results;
  }

 private:
  const IValue& number(const Json& json) const {
    return values_.at(static_cast<size_t>(json.get<int64_t>()));
  }

  static at::Tensor laid_out(const at::Tensor& tensor, bool channels_last) {
    const auto format = !channels_last      ? at::MemoryFormat::Contiguous
                        : tensor.dim() == 5 ? at::MemoryFormat::ChannelsLast3d
                                            : at::MemoryFormat::ChannelsLast;
    const at::Tensor fresh = at::empty_like(tensor, tensor.options(), format);
    return tensor.strides() == fresh.strides() ? tensor : fresh.copy_(tensor);
  }

  IValue result(const std::string& name, const JsonList& args, const JsonObject& keywords) const {
    if (name == "getitem") {
      const auto index = static_cast<size_t>(args.at(1).get<int64_t>());
      const auto& several = number(args.at(0).get<JsonObject>().at("value"));
      return several.isTensorList() ? IValue(several.toTensorVector().at(index))
                                    : several.toTupleRef().elements().at(index);
    }
    const auto op = find(name);
    const auto& parameters = op.schema().arguments();
    torch::jit::Stack stack;
    for (size_t i = 0; i < parameters.size(); ++i) {
      const auto& parameter = parameters[i];
      const auto keyword = keywords.find(parameter.name());
      if (i < args.size()) {
        stack.push_back(value(args[i], *parameter.type()));
      } else if (keyword != keywords.end()) {
        stack.push_back(value(keyword->second, *parameter.type()));
      } else {
        stack.push_back(parameter.default_value().value_or(IValue()));
      }
    }
    op.callBoxed(stack);
    return stack.size() == 1 ? std::move(stack.front()) : c10::ivalue::Tuple::create(stack);
  }

  // "aten.add.Tensor".
  static c10::OperatorHandle find(const std::string& name) {
    const auto first = name.find('.'), last = name.rfind('.');
    TORCH_CHECK(first < last && last != std::string::npos, kOp,
                ": expected the name of an op, but got ", name);
    const auto full = name.substr(0, first) + "::" + name.substr(first + 1, last - first - 1);
    const auto overload = name.substr(last + 1);
    const auto found = c10::Dispatcher::singleton().findSchema(
        {full, overload == "default" ? std::string() : overload});
    TORCH_CHECK(found, kOp, ": cpuaccel is off, or oneDNN rejected the plan, and the op ", full,
                ", which the fallback to torch needs, is not available without Python");
    return *found;
  }

  IValue value(const Json& json, const c10::Type& type) const {
    if (const auto* optional = type.castRaw<c10::OptionalType>()) {
      return json.get_if<std::nullptr_t>() ? IValue() : value(json, *optional->getElementType());
    }
    if (const auto* object = json.get_if<JsonObject>()) {
      return reference(*object);
    }
    if (const auto* list = json.get_if<JsonList>()) {
      return values(*list, *type.expectRef<c10::ListType>().getElementType());
    }
    if (const auto* integer = json.get_if<int64_t>()) {
      const bool real = type.kind() == c10::TypeKind::FloatType;
      return real ? IValue(static_cast<double>(*integer)) : IValue(*integer);
    }
    if (const auto* real = json.get_if<double>()) {
      return *real;
    }
    if (const auto* flag = json.get_if<bool>()) {
      return *flag;
    }
    if (const auto* text = json.get_if<std::string>()) {
      return *text;
    }
    return {};
  }

  IValue reference(const JsonObject& object) const {
    if (const auto found = object.find("value"); found != object.end()) {
      return number(found->second);
    }
    if (const auto found = object.find("size"); found != object.end()) {
      const auto& words = found->second.get<JsonList>();
      return number(words.at(0)).toTensor().size(words.at(1).get<int64_t>());
    }
    return constant(object.at("torch").get<std::string>());
  }

  IValue values(const JsonList& list, const c10::Type& element) const {
    const auto each = [&](const Json& json) { return value(json, element); };
    switch (element.kind()) {
      case c10::TypeKind::TensorType:
        return list_of<at::Tensor>(list, [&](const auto& json) { return each(json).toTensor(); });
      case c10::TypeKind::IntType:
        return list_of<int64_t>(list, [&](const auto& json) { return each(json).toInt(); });
      case c10::TypeKind::FloatType:
        return list_of<double>(list, [&](const auto& json) { return each(json).toDouble(); });
      case c10::TypeKind::BoolType:
        return list_of<bool>(list, [&](const auto& json) { return each(json).toBool(); });
      case c10::TypeKind::OptionalType:
        return list_of<std::optional<at::Tensor>>(
            list, [&](const auto& json) { return each(json).template toOptional<at::Tensor>(); });
      default:
        TORCH_CHECK(false, kOp, ": lists of ", element.str(), " are not supported without Python");
    }
  }

  Values values_;
  const Json& json_;
};

std::vector<at::Tensor> by_torch(const std::vector<at::Tensor>& inputs,
                                 const std::vector<at::Tensor>& constants,
                                 const std::string& text) {
  const at::AutoDispatchBelowADInplaceOrView no_autograd;
  Values values(inputs.begin(), inputs.end());
  values.insert(values.end(), constants.begin(), constants.end());
  const Json json = parse_json(text);
  return Program(std::move(values), json).run();
}

}  // namespace

TORCH_LIBRARY_IMPL(cpuaccel, CPU, library) { library.impl("graph_region_by_torch", by_torch); }

}  // namespace cpuaccel
