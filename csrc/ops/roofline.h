// Lower bounds of times on this CPU, from peaks measured when they are first needed.
#pragma once

namespace cpuaccel::ops {

// Seconds that these multiply-adds of floats take all threads at least. The first call for a number
// of threads measures the peak, in about two milliseconds. 0: not known.
double least_seconds_of_floats(double multiply_adds);

}  // namespace cpuaccel::ops
