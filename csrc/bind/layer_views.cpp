#include "bind/layer_views.h"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <string>

#include "bind/torch_compat.h"

namespace cpuaccel {
namespace {

namespace py = pybind11;

const at::Tensor& unpacked(const py::object& tensor) { return THPVariable_Unpack(tensor.ptr()); }

// A weak reference would show that a tensor lives on with other sizes: torch's fake tensors, for
// example, belong to a tensor as long as it lives.
bool has_weak_references(const py::object& object) {
  static PyObject* const count =
      py::object(py::module_::import("weakref").attr("getweakrefcount")).release().ptr();
  const auto found = py::reinterpret_steal<py::object>(PyObject_CallOneArg(count, object.ptr()));
  if (!found) {
    throw py::error_already_set();
  }
  return PyLong_AsLong(found.ptr()) != 0;
}

}  // namespace

py::object attribute_of(py::handle object, py::handle name) {
  PyObject* found = PyObject_GetAttr(object.ptr(), name.ptr());
  if (found == nullptr) {
    if (PyErr_ExceptionMatches(PyExc_AttributeError) == 0) {
      throw py::error_already_set();
    }
    PyErr_Clear();
  }
  return py::reinterpret_steal<py::object>(found);
}

LayerViews::LayerViews(const py::tuple& names, const py::sequence& tensors, int64_t begin,
                       int64_t end)
    : begin_(begin), end_(end) {
  const py::object kind = py::module_::import("torch").attr("Tensor");
  if (names.size() != tensors.size()) {
    throw py::value_error("LayerViews: expected as many names as tensors");
  }
  for (size_t i = 0; i < names.size(); ++i) {
    const py::object tensor = tensors[i];
    if (!py::type::of(tensor).is(kind) || unpacked(tensor).dim() < 3) {
      throw py::type_error("LayerViews: tensors: expected tensors of three or more dimensions");
    }
    views_.push_back({names[i], tensor, unpacked(tensor).const_data_ptr()});
  }
}

bool LayerViews::are_held_by(py::handle layer) const {
  return std::all_of(views_.begin(), views_.end(),
                     [&](const View& view) { return is_held_by(layer, view); });
}

bool LayerViews::is_held_by(py::handle layer, const View& view) const {
  return attribute_of(layer, view.name).is(view.tensor) &&
         unpacked(view.tensor).const_data_ptr() == view.address;
}

bool LayerViews::is_held_by_nobody_else([[maybe_unused]] const View& view) const {
#ifdef Py_GIL_DISABLED
  return false;
#else
  // The layer and this object have a reference each.
  const at::Tensor& tensor = unpacked(view.tensor);
  const auto* impl = tensor.unsafeGetTensorImpl();
  return Py_REFCNT(view.tensor.ptr()) == 2 && tensor.use_count() == 1 &&
         tensor.weak_use_count() == 1 && !tensor.requires_grad() &&
         impl->allow_tensor_metadata_change() && !has_weak_references(view.tensor);
#endif
}

bool LayerViews::resize(py::handle layer, int64_t begin, int64_t end) {
  const auto fits = [&](const View& view) {
    return is_held_by(layer, view) && is_held_by_nobody_else(view);
  };
  if (!std::all_of(views_.begin(), views_.end(), fits)) {
    return false;
  }
  for (auto& view : views_) {
    const at::Tensor& tensor = unpacked(view.tensor);
    c10::DimVector sizes(tensor.sizes());
    const c10::DimVector strides(tensor.strides());
    sizes[2] = end - begin;
    tensor.unsafeGetTensorImpl()->set_sizes_and_strides(
        sizes, strides, tensor.storage_offset() + (begin - begin_) * strides[2]);
    view.address = tensor.const_data_ptr();
  }
  begin_ = begin, end_ = end;
  return true;
}

void bind_layer_views(py::module_& module) {
  py::class_<LayerViews>(module, "LayerViews")
      .def(py::init<const py::tuple&, const py::sequence&, int64_t, int64_t>(), py::arg("names"),
           py::arg("tensors"), py::arg("begin"), py::arg("end"))
      .def_property_readonly("begin", &LayerViews::begin)
      .def_property_readonly("end", &LayerViews::end)
      .def("are_held_by", &LayerViews::are_held_by, py::arg("layer"))
      .def("resize", &LayerViews::resize, py::arg("layer"), py::arg("begin"), py::arg("end"));
}

}  // namespace cpuaccel
