// Converts torch's floating-point types to those of cpuaccel's kernels.
#pragma once

#include <c10/core/ScalarType.h>

#include "base/data_type.h"

namespace cpuaccel::ops {

// Whether family gemm has kernels for this type.
inline bool is_gemm_type(at::ScalarType type) {
  return type == at::kFloat || type == at::kBFloat16 || type == at::kHalf;
}

// Whether the kernels of graphs and of sparse matrices have this type.
inline bool is_graph_type(at::ScalarType type) { return is_gemm_type(type) || type == at::kDouble; }

// For a type that is_graph_type().
inline DataType data_type(at::ScalarType type) {
  return type == at::kFloat      ? DataType::f32
         : type == at::kDouble   ? DataType::f64
         : type == at::kBFloat16 ? DataType::bf16
                                 : DataType::f16;
}

}  // namespace cpuaccel::ops
