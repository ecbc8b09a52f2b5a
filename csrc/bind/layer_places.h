#pragma once

#include <pybind11/pybind11.h>

namespace cpuaccel {

// LayerPlaces: lets the steps of a plan write to the layers of a Python cache.
void bind_layer_places(pybind11::module_& module);

}  // namespace cpuaccel
