// Helpers of the quantized plan steps: memory order and quantizers of a region's values.
//
// The steps are kinds of ops for programs of csrc/plan, on uint8 values that quantize_per_tensor
// made.
#pragma once

#include <cstdint>

#include "plan/build.h"
#include "plan/value_quantizer.h"

namespace cpuaccel::quant {

using plan::value_quantizer;
using plan::ValueQuantizer;

// A value's data pointer as bytes.
inline uint8_t* u8(void* data) { return static_cast<uint8_t*>(data); }

using plan::count_of;

// The order of a tensor without gaps; contiguous for all others.
plan::MemoryFormat format_to_have(const plan::TensorDesc& desc);

// The value itself if it has this order and no gaps, else a copy that does.
plan::Id in_format(plan::Building& building, plan::Id id, plan::MemoryFormat order);

// The value itself if it has no gaps and an order of plan::MemoryFormat, else a copy.
plan::Id without_gaps(plan::Building& building, plan::Id id);

}  // namespace cpuaccel::quant
