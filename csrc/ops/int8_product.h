// Products of rows by int8 weights: families qgemm and gemm_w8.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>

#include "kernels/qgemm/qgemm.h"
#include "ops/int8_linear.h"

namespace cpuaccel::ops {

// The weight of a call: N x K, packed and plain. The functions may take long.
struct Int8Weight {
  int64_t N, K;
  std::function<std::shared_ptr<const kernels::QgemmWeights>()> packed;
  std::function<at::Tensor()> plain;
};

// The result of `call` (int8_linear.h), whose own weight and zero points are not read; its input is
// of a gemm type and plain. Returns an undefined tensor and sets `reason` if no kernel computes it.
at::Tensor int8_product(const Int8Linear& call, const Int8Weight& weight, const char*& reason);

// How the product is counted.
Op counted_op(std::string_view quantize);

}  // namespace cpuaccel::ops
