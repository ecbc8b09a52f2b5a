// The ops fused behind a layer, with their tensors; an Epilogue is the same as pointers.
#pragma once

#include <ATen/core/Tensor.h>

#include "quant/epilogue.h"

namespace cpuaccel::quant {

struct Following {
  at::Tensor table;  // 256 uint8, contiguous; undefined if there is none
  Binary binary = Binary::none;
  bool relu = false;
  at::Tensor other;  // quint8, defined if binary is not none
  // Quantiser of the first operand of the binary op: the table's result or, without a table, the
  // layer's.
  double own_scale = 1.0;
  int64_t own_zero_point = 0;
  // Quantiser of the last result.
  double scale = 1.0;
  int64_t zero_point = 0;

  // `other_data`: the values of `other` in the layout of the result.
  Epilogue epilogue(const uint8_t* other_data) const;
};

// One op after the other on the quantised result of a layer, by the kernels that torch has now.
at::Tensor run_apart(const Following& following, at::Tensor result);

}  // namespace cpuaccel::quant
