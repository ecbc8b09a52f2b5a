// Whose CPU this is: some choices of kernels are measured on one vendor's only.
#pragma once

namespace cpuaccel {

bool amd_cpu();

}  // namespace cpuaccel
