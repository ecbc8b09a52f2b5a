// Products of rows with weights: by families gemm and gemm_bf16 from weights that are packed once,
// where a trial on this machine says that they are faster than oneDNN.
//
// Of few rows a weight is used a few times only, and the next panel has to come from L3 or memory
// meanwhile: our tiles ask for it while they multiply.
#pragma once

#include "graph/build.h"
#include "graph/layer.h"
#include "graph/rows_call.h"

namespace cpuaccel::graph {

// Adds the step of `layer`, which is `rows`, and returns whether there is one.
bool add_packed_rows(Building& building, const Layer& layer, const RowsCall& rows);

}  // namespace cpuaccel::graph
