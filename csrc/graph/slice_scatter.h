// A tensor of which a slice is another tensor's: torch's slice_scatter, of a decoder's cache.
#pragma once

#include "graph/build.h"

namespace cpuaccel::graph {

//   op slice_scatter in WHOLE PART out DST    axis=i: min=i: max=i:
//
// DST has the numbers of WHOLE but for places min to max of dimension axis, which are PART's; all
// of one type. Where DST is WHOLE's own memory the slice alone is written.
void add_slice_scatter(Building& building, const Program& program, const Operation& operation);

// Whether `dst` may be written in the place of `whole`: it is that with a slice written to it, and
// nothing else in the program reads `whole`.
bool may_be_in_place(const Program& program, Id dst, Id whole);

}  // namespace cpuaccel::graph
