// torch's slice_scatter as an op of a region: replaces a slice of a tensor, such as a decoder's
// cache.
#pragma once

#include "plan/build.h"

namespace cpuaccel::plan {

//   op slice_scatter in WHOLE PART out DST    axis=i: min=i: max=i:
//
// DST has the elements of WHOLE, except those from min to max, without max, of dimension axis,
// which are PART's. All have one dtype. If DST is WHOLE's own memory, only the slice is written.
void add_slice_scatter(Building& building, const Region& region, const Operation& operation);

// Whether `dst` may be written in the memory of `whole`: it is `whole` with a slice written to it,
// and nothing else in the region reads `whole`.
bool may_be_in_place(const Region& region, Id dst, Id whole);

}  // namespace cpuaccel::plan
