#pragma once

#include <pybind11/pybind11.h>

namespace cpuaccel {

// The class WatchedNumbers.
void bind_watched_numbers(pybind11::module_& module);

}  // namespace cpuaccel
