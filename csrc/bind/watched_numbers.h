#pragma once

#include <pybind11/pybind11.h>

namespace cpuaccel {

// WatchedNumbers: detects mutations of small tensors, such as scales.
void bind_watched_numbers(pybind11::module_& module);

}  // namespace cpuaccel
