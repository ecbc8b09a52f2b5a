// For the small functions of an inner loop: left out of line, their operands go through memory.
#pragma once

#define CPUACCEL_INLINE [[gnu::always_inline]] inline
