// 16-bit floats in plans.
#pragma once

#include "base/data_type.h"
#include "base/isa.h"

namespace cpuaccel::plan {

constexpr bool is_f32_or_half(DataType type) {
  return type == DataType::f32 || type == DataType::bf16 || type == DataType::f16;
}

// Whether arithmetic of `type`, bf16 or f16, is f32 arithmetic on this CPU. oneDNN has few
// operations of such a type: those of cpuaccel widen its numbers as they load them.
inline bool is_widened(DataType type) {
  return (type == DataType::bf16 && !has_bf16_arithmetic()) ||
         (type == DataType::f16 && !has_fp16_arithmetic());
}

}  // namespace cpuaccel::plan
