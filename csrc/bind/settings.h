// Settings of Python's module that programs without Python have from the environment.
#pragma once

#include <string>

namespace cpuaccel {

// Caps our kernels, and oneDNN as long as it has generated no code: "auto" or the name of a rung.
// Throws std::invalid_argument where `name` is neither.
void set_max_isa_by_name(const std::string& name);

// Chooses what runs by tables alone, never by timing it.
void set_deterministic(bool on);

}  // namespace cpuaccel
