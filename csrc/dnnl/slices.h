// Splits a convolution into slices of its results, with one primitive and one thread for each.
//
// oneDNN splits a primitive up in a parallel region of its own. Waking threads and waiting for them
// takes microseconds, as long as the small layers of a model. Slices run in a team that many layers
// share (base/team.h), and what a thread wrote is in its cache when it reads it.
#pragma once

#include <cstdint>
#include <vector>

#include "dnnl/problem.h"

namespace cpuaccel::dnnl_layer {

struct Slice {
  Problem problem;        // for one thread
  int64_t src_first = 0;  // src elements before it
  int64_t dst_first = 0;  // dst elements before it
};

// Splits `problem` into problem.slices slices: by images if there are several, else by pixels of a
// 1x1 convolution or by rows. Returns nothing unless `problem` is a convolution with at least
// problem.slices of them, or if a slice would read only padding.
std::vector<Slice> slices_of(const Problem& problem);

}  // namespace cpuaccel::dnnl_layer
