#include "bind/same_objects.h"

#include <cstdint>
#include <cstring>
#include <string>

namespace cpuaccel {
namespace {

namespace py = pybind11;

PyObject* item(const py::tuple& tuple, size_t at) {
  return PyTuple_GET_ITEM(tuple.ptr(), static_cast<py::ssize_t>(at));
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

PyObject* dictionary(const py::tuple& tables, size_t i) {
  PyObject* table = item(tables, i);
  if (!PyDict_Check(table)) {
    throw py::type_error("same_objects: expected tables to be dictionaries");
  }
  return table;
}

#if PY_VERSION_HEX < 0x030C0000

constexpr size_t kAhead = 24;

// Each dictionary has a version, a new number at every change (PEP 509). `seen` has the version at
// which each table was last compared. A model's dictionaries are cold when it is called; of an
// unchanged one, this reads a single cache line.
bool all_hold(const py::tuple& tables, const py::tuple& held, const py::object& end, char* seen) {
  size_t at = 0;
  for (size_t i = 0; i < tables.size(); ++i, seen += sizeof(uint64_t)) {
    PyObject* table = dictionary(tables, i);
    if (i + kAhead < tables.size()) {
      __builtin_prefetch(item(tables, i + kAhead));
    }
    const uint64_t version = reinterpret_cast<const PyDictObject*>(table)->ma_version_tag;
    if (std::memcmp(seen, &version, sizeof version) != 0) {
      if (!holds(table, held, at, end)) {
        return false;
      }
      std::memcpy(seen, &version, sizeof version);
    }
    at += 2 * static_cast<size_t>(PyDict_GET_SIZE(table)) + 1;
  }
  return at == held.size();
}

#else

// Python 3.12 hides versions from extensions (PEP 699), and calls watchers of dictionaries instead:
// before each change of one, and when a watched one is freed.
uint64_t changes = 1;  // of all watched dictionaries together, under the GIL

int count_change(PyDict_WatchEvent /*event*/, PyObject* /*table*/, PyObject* /*key*/,
                 PyObject* /*value*/) {
  ++changes;
  return 0;
}

// -1 if others have all of the interpreter's eight watchers: then every call compares.
int watcher() {
  static const int id = [] {
    const int added = PyDict_AddWatcher(count_change);
    if (added < 0) {
      PyErr_Clear();
    }
    return added;
  }();
  return id;
}

// Python 3.13 does not call watchers for attributes that it keeps inside of the object. popitem()
// moves them into the dictionary for good; the item then goes back to its place, the last.
void move_into_dictionary([[maybe_unused]] PyObject* table) {
#if PY_VERSION_HEX >= 0x030D0000
  if (reinterpret_cast<const PyDictObject*>(table)->ma_values == nullptr ||
      PyDict_GET_SIZE(table) == 0) {
    return;
  }
  const auto type = py::handle(reinterpret_cast<PyObject*>(&PyDict_Type));
  const auto last = py::tuple(type.attr("popitem")(py::handle(table)));
  if (PyDict_SetItem(table, item(last, 0), item(last, 1)) < 0) {
    throw py::error_already_set();
  }
#endif
}

void watch(PyObject* table) {
  move_into_dictionary(table);
  if (PyDict_Watch(watcher(), table) < 0) {
    throw py::error_already_set();
  }
}

// The first bytes of `seen` have the count of changes at which all tables were last compared. While
// nothing that is watched changes, no dictionary is read.
bool all_hold(const py::tuple& tables, const py::tuple& held, const py::object& end, char* seen) {
  const bool watched = watcher() >= 0 && tables.size() != 0;
  if (watched && std::memcmp(seen, &changes, sizeof changes) == 0) {
    return true;
  }
  size_t at = 0;
  for (size_t i = 0; i < tables.size(); ++i) {
    PyObject* table = dictionary(tables, i);
    if (watched) {
      watch(table);
    }
    if (!holds(table, held, at, end)) {
      return false;
    }
    at += 2 * static_cast<size_t>(PyDict_GET_SIZE(table)) + 1;
  }
  if (at != held.size()) {
    return false;
  }
  if (watched) {
    std::memcpy(seen, &changes, sizeof changes);
  }
  return true;
}

#endif

// Whether `held` consists of the objects in each dictionary of `tables`, each followed by `end`.
// `versions` has eight bytes for each table, at first zero, which is what the last comparison saw:
// the caller passes them again with the same tables and objects.
bool same_objects(const py::tuple& tables, const py::tuple& held, const py::object& end,
                  const py::bytearray& versions) {
  if (versions.size() != tables.size() * sizeof(uint64_t)) {
    throw py::value_error("same_objects: versions: expected " +
                          std::to_string(tables.size() * sizeof(uint64_t)) + " bytes, got " +
                          std::to_string(versions.size()));
  }
  return all_hold(tables, held, end, PyByteArray_AS_STRING(versions.ptr()));
}

}  // namespace

void bind_same_objects(py::module_& module) {
  module.def("same_objects", &same_objects, py::arg("tables"), py::arg("held"), py::arg("end"),
             py::arg("versions"));
}

}  // namespace cpuaccel
