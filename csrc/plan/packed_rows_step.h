// Matrix products by kernel families gemm and gemm_bf16 with packed weights, where tuning on this
// machine finds them faster than oneDNN.
//
// With few rows (small M) each weight is used only a few times, while the next panel has to come
// from L3 or memory. cpuaccel's tiles prefetch that panel while they multiply.
#pragma once

#include "plan/build.h"
#include "plan/layer.h"
#include "plan/rows_call.h"

namespace cpuaccel::plan {

// Adds the step of `layer`, whose product is `rows`, and returns whether there is one.
bool add_packed_rows(Building& building, const Layer& layer, const RowsCall& rows);

}  // namespace cpuaccel::plan
