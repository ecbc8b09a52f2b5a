// same_objects(): checks quickly that Python dictionaries still hold the same objects.
#pragma once

#include <pybind11/pybind11.h>

namespace cpuaccel {

void bind_same_objects(pybind11::module_& module);

}  // namespace cpuaccel
