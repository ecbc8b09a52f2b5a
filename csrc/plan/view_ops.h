// The ops view, permute and slice of a region. They cost nothing if the result may be a view of the
// input; otherwise they copy.
//
//   op view in X out Y [dims=is:...] [axis=i:]
//       the elements of X in their order, in the sizes of the value Y; but dimension d has the
//       size of dimension dims[d] of X unless dims[d] is -1, and dimension `axis` the size that
//       the number of elements gives
//   op permute in X out Y order=is:...
//       dimension d of Y is dimension order[d] of X
//   op slice in X out Y axis=i: min=i: max=i:
//       elements min to max, without max, of one dimension
#pragma once

#include "plan/build.h"

namespace cpuaccel::plan {

// Adds the steps of `operation`. Throws std::runtime_error if the sizes of a view have another
// number of elements than its input, or if its input can have no view.
void add_view_op(Building& building, const Region& region, const Operation& operation);

}  // namespace cpuaccel::plan
