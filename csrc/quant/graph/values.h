// Helpers of the quantized plan steps: memory order and quantizers of a program's values.
//
// The steps are kinds of ops for programs of csrc/graph, on uint8 values that quantize_per_tensor
// made.
#pragma once

#include <cstdint>

#include "graph/build.h"
#include "graph/value_quantizer.h"

namespace cpuaccel::quant {

using graph::value_quantizer;
using graph::ValueQuantizer;

// A value's data pointer as bytes.
inline uint8_t* u8(void* data) { return static_cast<uint8_t*>(data); }

using graph::count_of;

// The order of a tensor without gaps; contiguous for all others.
graph::Order order_to_have(const graph::TensorDesc& desc);

// The value itself if it has this order and no gaps, else a copy that does.
graph::Id in_order(graph::Building& building, graph::Id id, graph::Order order);

// The value itself if it has no gaps and an order of graph::Order, else a copy.
graph::Id without_gaps(graph::Building& building, graph::Id id);

}  // namespace cpuaccel::quant
