// Ops of ours that move numbers or look at them in another way. They cost nothing where the result
// may be the memory of what it is made of.
//
//   op view in X out Y [dims=is:...] [axis=i:]
//       the numbers of X in their order, in the sizes of the value Y; but dimension d is as large
//       as dimension dims[d] of X where that is none of -1, and dimension `axis` what the number of
//       elements gives
//   op permute in X out Y order=is:...
//       dimension d of Y is dimension order[d] of X
//   op slice in X out Y axis=i: min=i: max=i:
//       places min to max of one dimension
#pragma once

#include "graph/build.h"

namespace cpuaccel::graph {

// Adds what `operation` needs. Throws std::runtime_error where its result would have to be put
// together in a way that no step here does.
void add_move(Building& building, const Program& program, const Operation& operation);

}  // namespace cpuaccel::graph
