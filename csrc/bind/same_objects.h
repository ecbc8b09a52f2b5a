// Whether dictionaries of Python hold the very objects that they held.
#pragma once

#include <pybind11/pybind11.h>

namespace cpuaccel {

void bind_same_objects(pybind11::module_& module);

}  // namespace cpuaccel
