// Functions behind cpuaccel.explain(): times of plan steps, and peak rates of this machine.
#pragma once

#include <pybind11/pybind11.h>

namespace cpuaccel {

void bind_step_times(pybind11::module_& module);

}  // namespace cpuaccel
