// Reduce: how families segment and spmm reduce the terms of a row.
#pragma once

#include <cstdint>

namespace cpuaccel::kernels {

enum class Reduce : uint8_t { sum, mean, amax, amin };

}  // namespace cpuaccel::kernels
