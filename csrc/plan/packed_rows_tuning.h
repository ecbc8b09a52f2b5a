// Tuning of matrix products: times cpuaccel's kernels with packed weights against oneDNN.
#pragma once

#include <string>

#include "plan/layer_step.h"
#include "plan/rows_call.h"

namespace cpuaccel::plan {

// Runs both on data of its own, which takes some milliseconds for products of few rows. `key`
// names the product in the log. Throws dnnl::error if oneDNN cannot run it.
bool cpuaccel_is_faster(const std::string& key, const LayerPrimitives& onednn, const RowsCall& rows,
                        bool bf16);

}  // namespace cpuaccel::plan
