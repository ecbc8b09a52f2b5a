// The ops fused behind a layer, with their tensors; an Epilogue is the same as pointers.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

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

  // The same as pointers. None if the kernels can't do it on a result of this shape and format: the
  // second operand differs in either (torch then rounds in another way), or the quantisers are
  // beyond what the kernels' arithmetic holds.
  std::optional<Epilogue> epilogue(at::IntArrayRef sizes, at::MemoryFormat format) const;
};

// The table or the binary op, whichever there is, as an op of its own on the result of a layer.
at::Tensor run_apart(const Following& following, const at::Tensor& result);

}  // namespace cpuaccel::quant
