// Runs a matrix product on cpuaccel's kernels or on oneDNN.
#pragma once

#include "ops/matmul/call.h"

namespace cpuaccel::ops {

// Each returns null if dst was written; else the reason, with dst unchanged.
const char* run_cpuaccel_matmul(const MatmulCall& call);
const char* run_onednn_matmul(const MatmulCall& call);

}  // namespace cpuaccel::ops
