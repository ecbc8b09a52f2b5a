// Unrolls loops over arrays that should be registers. All such loops need it: one index that is not
// a constant puts the array into memory.
#pragma once

#define CPUACCEL_UNROLL _Pragma("GCC unroll 64")
