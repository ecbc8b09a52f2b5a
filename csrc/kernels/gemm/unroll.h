// For loops over registers, all of them: one index that is not a constant, and the array that it
// goes into is in memory.
#pragma once

#define CPUACCEL_UNROLL _Pragma("GCC unroll 64")
