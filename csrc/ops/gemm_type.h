// Maps torch's floating-point types to those of family gemm.
#pragma once

#include <c10/core/ScalarType.h>

#include "kernels/gemm/types.h"

namespace cpuaccel::ops {

inline bool is_gemm_type(at::ScalarType type) {
  return type == at::kFloat || type == at::kBFloat16 || type == at::kHalf;
}

// For a type that is_gemm_type().
inline kernels::GemmType gemm_type(at::ScalarType type) {
  return type == at::kFloat      ? kernels::GemmType::f32
         : type == at::kBFloat16 ? kernels::GemmType::bf16
                                 : kernels::GemmType::f16;
}

}  // namespace cpuaccel::ops
