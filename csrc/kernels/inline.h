// CPUACCEL_INLINE, for the small functions of an inner loop. Out of line, their operands would go
// through memory.
#pragma once

#define CPUACCEL_INLINE [[gnu::always_inline]] inline
