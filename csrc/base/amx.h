// Tiles of AMX, which Linux gives to processes that ask for them.
#pragma once

namespace cpuaccel {

// True if the CPU has AMX's products of bytes and of bfloat16, and the operating system gives tiles
// to this process and the threads that it starts from now on. Asks it once.
bool has_amx_tiles();

// The same, if max_isa() allows them.
bool amx_tiles_usable();

}  // namespace cpuaccel
