// AMX tiles: asks Linux for permission to use them and reports whether they are usable.
#pragma once

#include "base/api.h"

namespace cpuaccel {

// True if the CPU has AMX products of int8 and bfloat16, and the operating system grants tiles to
// this process and the threads that it starts from now on. Asks only once.
bool has_amx_tiles();

// isa_usable(Isa::amx): has_amx_tiles(), and max_isa() allows AMX.
CPUACCEL_API bool amx_tiles_usable();

}  // namespace cpuaccel
