// Whether a product of rows is faster by our kernels, its weights packed, or by oneDNN.
#pragma once

#include <string>

#include "graph/layer_step.h"
#include "graph/rows_call.h"

namespace cpuaccel::graph {

// Runs both on data of its own, of products of few rows some milliseconds. `problem` is what the
// log calls it. Throws dnnl::error where oneDNN cannot run it.
bool own_is_faster(const std::string& problem, const LayerPrimitives& onednn, const RowsCall& rows,
                   bool bf16);

}  // namespace cpuaccel::graph
