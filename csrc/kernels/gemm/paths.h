// The ways that gemm takes, and which shape takes which.
#pragma once

#include <span>

#include "kernels/gemm/kernels.h"

namespace cpuaccel::kernels {

struct GemmPath {
  const char* name;
  bool (*takes)(const GemmCall& call);
  void (*run)(const GemmCall& call, const GemmKernels& kernels, int64_t g);
};

// In order; the last takes everything.
std::span<const GemmPath> gemm_paths();

// The first that takes the call, whose M, N, K and alpha are not 0.
const GemmPath& gemm_path(const GemmCall& call);

}  // namespace cpuaccel::kernels
