// Convolutions in slices of their results, a primitive and a thread each.
//
// oneDNN splits a primitive up in a parallel region of its own: to wake threads and to wait for
// them takes microseconds, which is what the small layers of a model take. Slices run in a team
// that many layers share (base/team.h), and what a thread wrote is in its cache when it reads it.
#pragma once

#include <cstdint>
#include <vector>

#include "dnnl/problem.h"

namespace cpuaccel::dnnl_layer {

struct Slice {
  Problem problem;        // of one thread
  int64_t src_first = 0;  // numbers of the source before it
  int64_t dst_first = 0;  // and of the results
};

// `problem` in problem.slices of them: of images, where there are as many; of one image pixels of a
// 1x1 convolution, else rows. None of what is no convolution or has not so many.
std::vector<Slice> slices_of(const Problem& problem);

}  // namespace cpuaccel::dnnl_layer
