#include "bind/watched_numbers.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "bind/torch_compat.h"
#include "ops/region/watch.h"

namespace cpuaccel {
namespace {

namespace py = pybind11;

// Checks whether small tensors, such as scales, still hold the same values. A check reads the
// version of each tensor, a line or two of cold memory, and the bytes of a 64th of the tensors,
// different ones each time. The bytes show mutations that leave no version, as in WatchedTensors.
// torch's own way of calling a class from Python takes longer, when cold, than a whole check.
class WatchedNumbers {
 public:
  explicit WatchedNumbers(const py::sequence& tensors) {
    const py::object kind = py::module_::import("torch").attr("Tensor");
    for (const auto& each : tensors) {
      if (!py::isinstance(each, kind)) {
        throw py::type_error("WatchedNumbers: tensors: expected tensors, got " +
                             py::repr(py::type::of(each)).cast<std::string>());
      }
      tensors_.push_back(THPVariable_Unpack(each.ptr()));
      versions_.push_back(ops::version_of(tensors_.back()));
      bytes_.push_back(bytes_of(tensors_.back()));
    }
  }

  bool are_as_before() {
    const auto is_same = [](const at::Tensor& tensor, int64_t version) {
      return ops::version_of(tensor) == version;
    };
    if (!std::equal(tensors_.begin(), tensors_.end(), versions_.begin(), is_same)) {
      return false;
    }
    constexpr size_t kPhases = ops::WatchedTensors::kPhases;
    for (size_t i = looks_++ % kPhases; i < tensors_.size(); i += kPhases) {
      if (bytes_of(tensors_[i]) != bytes_[i]) {
        return false;
      }
    }
    return true;
  }

 private:
  static std::string bytes_of(const at::Tensor& tensor) {
    const at::Tensor dense = tensor.contiguous();
    return {static_cast<const char*>(dense.const_data_ptr()), dense.nbytes()};
  }

  std::vector<at::Tensor> tensors_;
  std::vector<int64_t> versions_;
  std::vector<std::string> bytes_;
  size_t looks_ = 0;  // under the interpreter's lock
};

}  // namespace

void bind_watched_numbers(py::module_& module) {
  py::class_<WatchedNumbers>(module, "WatchedNumbers")
      .def(py::init<const py::sequence&>(), py::arg("tensors"))
      .def("are_as_before", &WatchedNumbers::are_as_before);
  module.def(
      "note_hidden_write",
      [](const py::handle& tensor) { ops::note_hidden_write(THPVariable_Unpack(tensor.ptr())); },
      py::arg("tensor"),
      "Says that a tensor was or will be written to without a new version: the next use of weights "
      "packed from it compares all of its bytes.");
}

}  // namespace cpuaccel
