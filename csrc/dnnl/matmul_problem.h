// MatmulProblem: one floating-point matrix product, or a batch of them, described without pointers.
// It determines a oneDNN primitive and is a key of the primitive cache.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/api.h"
#include "base/data_type.h"

namespace cpuaccel::dnnl_layer {

//   dst[b, m, n] = alpha * sum over k of src[b, m, k] * weights[b, k, n] + bias[n] + beta * dst
// beta is 0 or any other number; with 0, dst is not read.
struct MatmulProblem {
  // f32, bf16 or f16.
  DataType src_type = DataType::f32;
  DataType weights_type = DataType::f32;
  DataType dst_type = DataType::f32;
  bool bias = false;            // N values of dst's type
  bool packed_weights = false;  // in the layout that oneDNN asks for; else in weights_strides
  int threads = 1;
  int isa = 0;
  float alpha = 1.0f;
  float beta = 0.0f;
  int64_t batch = 1, M = 0, N = 0, K = 0;
  // In elements, of batch, rows and columns.
  std::array<int64_t, 3> src_strides{}, weights_strides{}, dst_strides{};

  bool operator==(const MatmulProblem&) const = default;
};

size_t hash(const MatmulProblem& problem) noexcept;

// For logs: "matmul f32 b1 m128 n768 k768 t1".
CPUACCEL_API std::string to_string(const MatmulProblem& problem);

}  // namespace cpuaccel::dnnl_layer
