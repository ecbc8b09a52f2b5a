// TensorPostOps: the ops fused behind a quantized layer (table, add, mul) with their tensors. A
// BytePostOps has the same ops with pointers.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

#include "torch_ao/names.h"

namespace cpuaccel::torch_ao {

struct TensorPostOps {
  at::Tensor table;  // 256 uint8, contiguous; undefined if there is none
  std::optional<kernels::BinaryOp> binary;
  bool relu = false;
  at::Tensor other;  // quint8, defined if there is a binary op
  // Quantizer of the binary op's first operand: the table's result or, without a table, the
  // layer's.
  double own_scale = 1.0;
  int64_t own_zero_point = 0;
  // Quantizer of the final result.
  double scale = 1.0;
  int64_t zero_point = 0;

  // The same as pointers. Returns nullopt if kernels cannot apply it to a result of this shape and
  // format: the second operand has another shape or format (torch then rounds differently), or the
  // quantizers are out of range for the kernels' arithmetic.
  std::optional<BytePostOps> byte_post_ops(at::IntArrayRef sizes, at::MemoryFormat format) const;
};

// Runs the table or the binary op, whichever there is, as a separate op on a layer's result.
at::Tensor run_separately(const TensorPostOps& post_ops, const at::Tensor& result);

}  // namespace cpuaccel::torch_ao
