#include "bind/same_objects.h"

namespace cpuaccel {
namespace {

namespace py = pybind11;

constexpr size_t kAhead = 8;
constexpr size_t kLine = 64;

PyObject* item(const py::tuple& tuple, size_t at) {
  return PyTuple_GET_ITEM(tuple.ptr(), static_cast<py::ssize_t>(at));
}

// Asks for what reading a dictionary reads first: itself `kAhead` dictionaries before, and when
// that is there its keys.
void ask_for(const py::tuple& tables, size_t before) {
  if (before + kAhead < tables.size()) {
    __builtin_prefetch(item(tables, before + kAhead));
  }
  if (const size_t near = before + kAhead / 2; near < tables.size()) {
    if (PyObject* table = item(tables, near); PyDict_Check(table)) {
      const auto* keys =
          reinterpret_cast<const char*>(reinterpret_cast<const PyDictObject*>(table)->ma_keys);
      __builtin_prefetch(keys);
      __builtin_prefetch(keys + kLine);
    }
  }
}

// Of `tables`, dictionaries, the first holds `held[0]` under `held[1]`, and so on, in its order,
// then `end`; then comes what the next holds. Addresses alone are compared: no object but the
// dictionaries is read, which are cold when a model is called.
bool same_objects(const py::tuple& tables, const py::tuple& held, const py::object& end) {
  const size_t count = held.size();
  size_t at = 0;
  for (size_t i = 0; i < tables.size(); ++i) {
    PyObject* table = item(tables, i);
    if (!PyDict_Check(table)) {
      throw py::type_error("same_objects: expected tables to be dictionaries");
    }
    ask_for(tables, i);
    PyObject *key = nullptr, *value = nullptr;
    for (py::ssize_t next = 0; PyDict_Next(table, &next, &key, &value) != 0; at += 2) {
      if (at + 2 >= count || item(held, at) != value || item(held, at + 1) != key) {
        return false;
      }
    }
    if (at >= count || item(held, at++) != end.ptr()) {
      return false;
    }
  }
  return at == count;
}

}  // namespace

void bind_same_objects(py::module_& module) {
  module.def("same_objects", &same_objects, py::arg("tables"), py::arg("held"), py::arg("end"));
}

}  // namespace cpuaccel
