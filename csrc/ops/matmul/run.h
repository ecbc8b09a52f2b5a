// Matrix products by the libraries that may take them.
#pragma once

#include "ops/matmul/call.h"

namespace cpuaccel::ops {

// Each returns null if dst is written, else why it refuses; then dst is as it was.
const char* run_own_matmul(const MatmulCall& call);
const char* run_onednn_matmul(const MatmulCall& call);

}  // namespace cpuaccel::ops
