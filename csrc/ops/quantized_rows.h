// The rows of a float matrix as int8, each with its scale and zero point.
#pragma once

#include <ATen/EmptyTensor.h>
#include <ATen/core/Tensor.h>

#include <cstdint>

#include "kernels/quantize_by_row/quantize_by_row.h"
#include "ops/data_type.h"

namespace cpuaccel::ops {

struct QuantizedRows {
  at::Tensor values, scales, zero_points;

  // `src` is contiguous. `quantize` has the rounding; the matrices are set here.
  QuantizedRows(const at::Tensor& src, kernels::QuantizeByRow quantize)
      : values(at::detail::empty_cpu(src.sizes(), at::kChar)),
        scales(at::detail::empty_cpu({src.size(0)}, at::kFloat)),
        zero_points(at::detail::empty_cpu({src.size(0)}, at::kInt)) {
    quantize.src = src.const_data_ptr();
    quantize.type = data_type(src.scalar_type());
    quantize.M = src.size(0);
    quantize.K = quantize.row_stride = src.size(1);
    quantize.dst = values.mutable_data_ptr<int8_t>();
    quantize.scales = scales.mutable_data_ptr<float>();
    quantize.zero_points = zero_points.mutable_data_ptr<int32_t>();
    kernels::quantize_by_row(quantize);
  }
};

}  // namespace cpuaccel::ops
