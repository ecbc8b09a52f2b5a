// Tuning of oneDNN: which of its implementations of a problem is the fastest.
#pragma once

#include "base/api.h"
#include "dnnl/problem.h"

namespace cpuaccel::dnnl_layer {

// Returns `problem`, which has implementation 0 and one slice, with the implementation and slices
// that are the fastest. They come from the tuning cache, or are timed now on memory of their own,
// which takes some milliseconds. Returns oneDNN's own choice if no other implementation wins or
// tuning is off. If the problem can be sliced, slices are chosen unless an unsliced implementation
// clearly wins, because slices win more in a team. Problems that differ only in values of zero
// points and scales share one result.
CPUACCEL_API Problem fastest(Problem problem);

}  // namespace cpuaccel::dnnl_layer
