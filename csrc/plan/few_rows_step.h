// Matrix products with few rows (small M), by kernel family gemm. It reads the weights once, in
// place, without a oneDNN primitive and without packed weights.
#pragma once

#include "plan/build.h"
#include "plan/layer.h"
#include "plan/rows_call.h"

namespace cpuaccel::plan {

// Adds the step of `layer`, whose product is `rows`. Returns false, and adds nothing, for more rows
// and with fast math.
bool add_few_rows(Building& building, const Layer& layer, const RowsCall& rows);

}  // namespace cpuaccel::plan
