// Converts between DataType and GemmType, the dtypes of cpuaccel's float kernels.
#pragma once

#include <optional>

#include "kernels/gemm/types.h"
#include "plan/region.h"

namespace cpuaccel::plan {

// f32 or bf16; nullopt for other types.
inline std::optional<kernels::GemmType> gemm_type(DataType type) {
  switch (type) {
    case DataType::f32:
      return kernels::GemmType::f32;
    case DataType::bf16:
      return kernels::GemmType::bf16;
    default:
      return std::nullopt;
  }
}

inline DataType data_type(kernels::GemmType type) {
  return type == kernels::GemmType::bf16 ? DataType::bf16 : DataType::f32;
}

}  // namespace cpuaccel::plan
