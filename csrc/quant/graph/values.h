// What the steps of this folder share: how quantised values of a program lie, and their quantisers.
//
// They are kinds of ops for programs of csrc/graph, on uint8 values that quantize_per_tensor made.
#pragma once

#include <cstdint>

#include "graph/build.h"
#include "graph/value_quantizer.h"

namespace cpuaccel::quant {

using graph::value_quantizer;
using graph::ValueQuantizer;

// The bytes of a value that a step reads or writes.
inline uint8_t* u8(void* data) { return static_cast<uint8_t*>(data); }

using graph::count_of;

// The order that a tensor without gaps has; contiguous for all others.
graph::Order order_to_have(const graph::TensorDesc& desc);

// The value itself if it lies in this order without gaps, else a copy that does.
graph::Id in_order(graph::Building& building, graph::Id id, graph::Order order);

// The value itself if it has no gaps, in whatever order of ours; else a copy.
graph::Id without_gaps(graph::Building& building, graph::Id id);

}  // namespace cpuaccel::quant
