// Matrix products by kernel families gemm and gemm_bf16 with packed weights, where tuning on this
// machine finds them faster than oneDNN.
//
// With few rows (small M) each weight is used only a few times, while the next panel has to come
// from L3 or memory. cpuaccel's tiles prefetch that panel while they multiply.
#pragma once

#include "plan/step_maker.h"

namespace cpuaccel::plan {

// The maker of these steps (step_makers.h).
DeclineReason make_packed_rows(StepRequest& request);

}  // namespace cpuaccel::plan
