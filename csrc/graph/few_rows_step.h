// Products of few rows with weights: by family gemm, which reads the weights once, where they lie,
// without a primitive or a packed copy.
#pragma once

#include "graph/build.h"
#include "graph/layer.h"
#include "graph/rows_call.h"

namespace cpuaccel::graph {

// Adds the step of `layer`, which is `rows`, and returns whether there is one.
bool add_few_rows(Building& building, const Layer& layer, const RowsCall& rows);

}  // namespace cpuaccel::graph
