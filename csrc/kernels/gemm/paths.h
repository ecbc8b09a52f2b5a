// The algorithms (paths) of gemm, and which shape takes which path.
#pragma once

#include <cstdint>

#include "kernels/gemm/kernels.h"

namespace cpuaccel::kernels {

struct GemmPath {
  const char* name;
  bool (*takes)(const GemmCall& call, const GemmKernels& kernels);
  void (*run)(const GemmCall& call, const GemmKernels& kernels, int64_t g);
};

// The first path of the list in paths.cpp that takes the call. M, N and K are not 0.
const GemmPath& gemm_path(const GemmCall& call, const GemmKernels& kernels);

}  // namespace cpuaccel::kernels
