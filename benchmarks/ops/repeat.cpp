// Calls an op many times from C++, so that the conversion of arguments from Python is not timed.
// per_call.py builds and loads this file.
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/csrc/jit/python/pybind_utils.h>
#include <torch/extension.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

namespace {

// An op and its arguments, called through a stack of values, as Python and TorchScript call it.
class Call {
 public:
  Call(const std::string& name, const std::string& overload, const py::args& arguments)
      : op_(c10::Dispatcher::singleton().findSchemaOrThrow(name.c_str(), overload.c_str())),
        arguments_(torch::jit::createStackForSchema(
            op_.schema(), torch::jit::tuple_slice(arguments), py::kwargs(), std::nullopt)) {}

  void repeat(int64_t times) const {
    torch::jit::Stack stack;
    for (int64_t i = 0; i < times; ++i) {
      stack.assign(arguments_.begin(), arguments_.end());
      op_.callBoxed(stack);
    }
  }

 private:
  c10::OperatorHandle op_;
  torch::jit::Stack arguments_;
};

}  // namespace

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  py::class_<Call>(m, "Call")
      .def(py::init<const std::string&, const std::string&, const py::args&>())
      .def("repeat", &Call::repeat);
}
