// The functions of conv_dst.h in float64.
#pragma once

#include <algorithm>
#include <cmath>

#include "kernels/conv_dst.h"

namespace cpuaccel::kernels {

inline double exact_function(ConvFunction function, double x) {
  switch (function) {
    case ConvFunction::relu:
      return std::max(x, 0.0);
    case ConvFunction::hardswish:
      return x * std::clamp(x + 3.0, 0.0, 6.0) / 6.0;
    case ConvFunction::silu:
      return x / (1.0 + std::exp(-x));
    case ConvFunction::none:
      break;
  }
  return x;
}

}  // namespace cpuaccel::kernels
