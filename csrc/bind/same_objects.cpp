#include "bind/same_objects.h"

#include <cstdint>
#include <cstring>
#include <string>

namespace cpuaccel {
namespace {

namespace py = pybind11;

constexpr size_t kAhead = 8;
constexpr size_t kLine = 64;

// CPython's version tag of a dictionary, a new number at every change (PEP 509). 0, which no
// dictionary has, on versions that hide the tag from extensions (PEP 699).
constexpr bool kHasVersions = PY_VERSION_HEX < 0x030C0000;
uint64_t version_of([[maybe_unused]] PyObject* table) {
#if PY_VERSION_HEX < 0x030C0000
  return reinterpret_cast<const PyDictObject*>(table)->ma_version_tag;
#else
  return 0;
#endif
}

PyObject* item(const py::tuple& tuple, size_t at) {
  return PyTuple_GET_ITEM(tuple.ptr(), static_cast<py::ssize_t>(at));
}

// Prefetches what reading a dictionary needs first: the dictionary itself `kAhead` dictionaries
// ahead, and half as far ahead its keys, if they will be read.
void ask_for(const py::tuple& tables, size_t before) {
  if (before + kAhead < tables.size()) {
    __builtin_prefetch(item(tables, before + kAhead));
  }
  if (const size_t near = before + kAhead / 2; !kHasVersions && near < tables.size()) {
    if (PyObject* table = item(tables, near); PyDict_Check(table)) {
      const auto* keys =
          reinterpret_cast<const char*>(reinterpret_cast<const PyDictObject*>(table)->ma_keys);
      __builtin_prefetch(keys);
      __builtin_prefetch(keys + kLine);
    }
  }
}

// Whether `table` holds, in its order, the value `held[at]` under the key `held[at + 1]` and so on,
// and `end` comes next. Compares addresses only.
bool holds(PyObject* table, const py::tuple& held, size_t at, const py::object& end) {
  PyObject *key = nullptr, *value = nullptr;
  for (py::ssize_t next = 0; PyDict_Next(table, &next, &key, &value) != 0; at += 2) {
    if (at + 2 >= held.size() || item(held, at) != value || item(held, at + 1) != key) {
      return false;
    }
  }
  return at < held.size() && item(held, at) == end.ptr();
}

// Whether `held` consists of the objects in each dictionary of `tables`, each followed by `end`.
// `versions` has eight bytes for each table, at first zero: the version at which the table was last
// compared. A model's dictionaries are cold when it is called; of an unchanged one, this reads a
// single cache line.
bool same_objects(const py::tuple& tables, const py::tuple& held, const py::object& end,
                  const py::bytearray& versions) {
  if (versions.size() != tables.size() * sizeof(uint64_t)) {
    throw py::value_error("same_objects: versions: expected " +
                          std::to_string(tables.size() * sizeof(uint64_t)) + " bytes, got " +
                          std::to_string(versions.size()));
  }
  char* seen = PyByteArray_AS_STRING(versions.ptr());
  size_t at = 0;
  for (size_t i = 0; i < tables.size(); ++i, seen += sizeof(uint64_t)) {
    PyObject* table = item(tables, i);
    if (!PyDict_Check(table)) {
      throw py::type_error("same_objects: expected tables to be dictionaries");
    }
    ask_for(tables, i);
    const uint64_t version = version_of(table);
    if (version == 0 || std::memcmp(seen, &version, sizeof version) != 0) {
      if (!holds(table, held, at, end)) {
        return false;
      }
      std::memcpy(seen, &version, sizeof version);
    }
    at += 2 * static_cast<size_t>(PyDict_GET_SIZE(table)) + 1;
  }
  return at == held.size();
}

}  // namespace

void bind_same_objects(py::module_& module) {
  module.def("same_objects", &same_objects, py::arg("tables"), py::arg("held"), py::arg("end"),
             py::arg("versions"));
}

}  // namespace cpuaccel
