// torch.classes.cpuaccel.BoundCall: an op with all of its arguments except tensors bound in C++.
//
// From Python, passing packed weights to an op costs torch about 15 us per call, because it looks
// up classes by name to find the type of the object. A method of a class gets its object directly.

#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/util/Exception.h>
#include <torch/custom_class.h>

#include <string>
#include <utility>

namespace cpuaccel::torch_ao {
namespace {

c10::OperatorHandle find_op(const std::string& name) {
  const auto dot = name.find('.');
  return c10::Dispatcher::singleton().findSchemaOrThrow(
      name.substr(0, dot).c_str(), dot == std::string::npos ? "" : name.c_str() + dot + 1);
}

class BoundCall final : public torch::CustomClassHolder {
 public:
  // op: "quantized::conv2d.new". arguments: all arguments of the op, in order. Argument 0 and, for
  // call2, argument `second` are placeholders.
  BoundCall(const std::string& op, c10::impl::GenericList arguments, int64_t second)
      : op_(find_op(op)), arguments_(arguments.vec()), second_(second) {
    const auto expected = op_.schema().arguments().size();
    TORCH_CHECK(arguments_.size() == expected, "BoundCall: expected arguments to have ", expected,
                " entries, those of ", op, ", but got ", arguments_.size());
    TORCH_CHECK(second >= 0 && second < static_cast<int64_t>(expected),
                "BoundCall: expected second to be the index of an argument of ", op, ", but got ",
                second);
    for (size_t i = 1; i < expected; ++i) {
      const auto& argument = op_.schema().arguments()[i];
      const bool placeholder = i == static_cast<size_t>(second);
      TORCH_CHECK(placeholder || arguments_[i].type()->isSubtypeOf(*argument.type()),
                  "BoundCall: ", op, ": expected ", argument.name(), " to be ",
                  argument.type()->repr_str(), ", but got ", arguments_[i].type()->repr_str());
    }
  }

  at::Tensor call(at::Tensor x) const {
    torch::jit::Stack stack(arguments_);
    stack[0] = std::move(x);
    op_.callBoxed(&stack);
    return std::move(stack.back()).toTensor();
  }

  at::Tensor call2(at::Tensor x, at::Tensor other) const {
    torch::jit::Stack stack(arguments_);
    stack[0] = std::move(x);
    stack[static_cast<size_t>(second_)] = std::move(other);
    op_.callBoxed(&stack);
    return std::move(stack.back()).toTensor();
  }

 private:
  c10::OperatorHandle op_;
  torch::jit::Stack arguments_;
  int64_t second_;
};

}  // namespace

TORCH_LIBRARY_FRAGMENT(cpuaccel, library) {
  library.class_<BoundCall>("BoundCall")
      .def(torch::init<std::string, c10::impl::GenericList, int64_t>())
      .def("call", &BoundCall::call)
      .def("call2", &BoundCall::call2);
}

}  // namespace cpuaccel::torch_ao
