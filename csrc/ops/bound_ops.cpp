// torch.classes.cpuaccel.BoundOps: calls of torch's ops one after another, with all arguments but
// tensors bound in C++.
//
// From Python, a call of an op takes torch longer than a small op computes. It takes several times
// as long between regions, whose weights have replaced torch's code and data in the CPU's caches.

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <ATen/ops/scalar_tensor.h>
#include <c10/core/InferenceMode.h>
#include <torch/custom_class.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace cpuaccel::ops {
namespace {

using c10::IValue;
using Tensors = std::vector<at::Tensor>;
using Numbers = std::vector<int64_t>;

const c10::Type& without_optional(const c10::Type& type) {
  const auto* optional = type.castRaw<c10::OptionalType>();
  return optional == nullptr ? type : *optional->getElementType();
}

class BoundOps final : public torch::CustomClassHolder {
 public:
  // Values have numbers: first the inputs, then the result of each op.
  explicit BoundOps(int64_t inputs)
      : inputs_(static_cast<size_t>(inputs)), last_reader_(inputs_, kNobody) {
    TORCH_CHECK(inputs >= 0, "BoundOps: inputs: expected 0 or more, got ", inputs);
  }

  // Adds a call of an op that returns one tensor. Each parameter gets the values of these numbers,
  // one or a list; or, without numbers, a constant.
  void add(const std::string& name, const std::string& overload,
           const std::vector<Numbers>& numbers, const std::vector<IValue>& constants) {
    Call call{
        c10::Dispatcher::singleton().findSchemaOrThrow(name.c_str(), overload.c_str()), {}, {}};
    const auto& schema = call.op.schema();
    const auto& parameters = schema.arguments();
    TORCH_CHECK(schema.returns().size() == 1 &&
                    schema.returns()[0].type()->kind() == c10::TypeKind::TensorType,
                "BoundOps: ", name, ": expected an op that returns a tensor");
    TORCH_CHECK(numbers.size() == parameters.size() && constants.size() == parameters.size(),
                "BoundOps: ", name, ": expected ", parameters.size(), " arguments, got ",
                numbers.size(), " and ", constants.size());
    for (size_t i = 0; i < parameters.size(); ++i) {
      const auto& type = *parameters[i].type();
      call.arguments.push_back(numbers[i].empty() ? constant(constants[i], type)
                                                  : reference(numbers[i], type));
    }
    calls_.push_back(std::move(call));
    last_reader_.push_back(kNobody);
  }

  // Sets the numbers of the values that run() returns. Others are freed once they were read.
  void finish(const Numbers& results) {
    for (const int64_t number : results) {
      results_.push_back(checked(number));
      last_reader_[results_.back()] = kNobody;
    }
    for (size_t value = 0; value < last_reader_.size(); ++value) {
      if (last_reader_[value] != kNobody) {
        calls_[last_reader_[value]].read.push_back(value);
      }
    }
  }

  Tensors run(Tensors inputs) const {
    TORCH_CHECK(inputs.size() == inputs_, "BoundOps: inputs: expected ", inputs_, " tensors, got ",
                inputs.size());
    Tensors values = std::move(inputs);
    values.reserve(last_reader_.size());
    torch::jit::Stack stack;
    for (const auto& call : calls_) {
      for (const auto& argument : call.arguments) {
        stack.push_back(argument.value(values));
      }
      call.op.callBoxed(stack);
      values.push_back(torch::jit::pop(stack).toTensor());
      for (const size_t value : call.read) {
        values[value].reset();
      }
    }
    Tensors found;
    for (const size_t number : results_) {
      found.push_back(values[number]);
    }
    return found;
  }

 private:
  static constexpr size_t kNobody = SIZE_MAX;

  struct Argument {
    IValue constant;
    std::vector<size_t> numbers;
    bool is_list = false;

    IValue value(const Tensors& values) const {
      if (numbers.empty()) {
        return constant;
      }
      if (!is_list) {
        return values[numbers[0]];
      }
      c10::List<at::Tensor> several;
      for (const size_t number : numbers) {
        several.push_back(values[number]);
      }
      return several;
    }
  };

  struct Call {
    c10::OperatorHandle op;
    std::vector<Argument> arguments;
    std::vector<size_t> read;  // values that no later call reads
  };

  size_t checked(int64_t number) const {
    TORCH_CHECK(number >= 0 && static_cast<size_t>(number) < last_reader_.size(),
                "BoundOps: there is no value ", number);
    return static_cast<size_t>(number);
  }

  static Argument constant(IValue value, const c10::Type& type) {
    if (value.isInt() && without_optional(type).kind() == c10::TypeKind::FloatType) {
      value = static_cast<double>(value.toInt());
    } else if (value.isScalar() && type.kind() == c10::TypeKind::TensorType) {
      const c10::InferenceMode off(false);  // autograd may save it
      const auto number = value.toScalar();
      auto tensor = at::scalar_tensor(number, at::dtype(number.type()));
      tensor.unsafeGetTensorImpl()->set_wrapped_number(true);  // as of a number in Python
      value = std::move(tensor);
    }
    TORCH_CHECK(value.type()->isSubtypeOf(type), "BoundOps: expected a value of type ", type.str(),
                ", got ", value.type()->str());
    return {std::move(value), {}, false};
  }

  Argument reference(const Numbers& numbers, const c10::Type& type) {
    const auto* list = type.castRaw<c10::ListType>();
    const auto& element = list == nullptr ? without_optional(type) : *list->getElementType();
    TORCH_CHECK(
        element.kind() == c10::TypeKind::TensorType && (list != nullptr || numbers.size() == 1),
        "BoundOps: expected a value of type ", type.str(), ", got tensors");
    Argument made{{}, {}, list != nullptr};
    for (const int64_t number : numbers) {
      made.numbers.push_back(checked(number));
      last_reader_[made.numbers.back()] = calls_.size();
    }
    return made;
  }

  size_t inputs_;
  std::vector<size_t> last_reader_;  // of each value, the number of a call
  std::vector<Call> calls_;
  std::vector<size_t> results_;
};

}  // namespace

TORCH_LIBRARY_FRAGMENT(cpuaccel, library) {
  library.class_<BoundOps>("BoundOps")
      .def(torch::init<int64_t>())
      .def("add", &BoundOps::add)
      .def("finish", &BoundOps::finish)
      .def("run", &BoundOps::run);
}

}  // namespace cpuaccel::ops
