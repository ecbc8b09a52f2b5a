// What every quantized plan step needs: names of csrc/plan, and helpers for memory formats.
//
// A file of this folder is a kind of op for regions (plan/region.h) on uint8 values that
// quantize_per_tensor made. It adds the steps of the kind and registers it:
//
//   const RegisterStep kName("q_name", add_name);
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/activation.h"
#include "plan/build.h"
#include "plan/kernel_step.h"
#include "plan/step_registry.h"
#include "plan/value_quantizer.h"

namespace cpuaccel::quant {

using plan::add_kernel_step;
using plan::attribute;
using plan::Building;
using plan::count_of;
using plan::Id;
using plan::MemoryFormat;
using plan::Operation;
using plan::Region;
using plan::RegisterStep;
using plan::Sizes;
using plan::TensorDesc;
using plan::value_quantizer;
using plan::ValueQuantizer;

using List = std::vector<int64_t>;        // an attribute
using Pointers = std::span<void* const>;  // inputs or outputs of a step

// The attribute `function`, a name of base/activations.inc. Throws std::runtime_error for others.
Activation function_of(const Operation& operation);

// A value's data pointer as bytes.
inline uint8_t* u8(void* data) { return static_cast<uint8_t*>(data); }

// The memory format of a tensor without gaps; contiguous for all others.
MemoryFormat format_to_have(const TensorDesc& desc);

// The value itself if it has this memory format and no gaps, else a copy that does.
Id in_format(Building& building, Id id, MemoryFormat format);

// The value itself if it has no gaps and a memory format, else a copy.
Id without_gaps(Building& building, Id id);

}  // namespace cpuaccel::quant
