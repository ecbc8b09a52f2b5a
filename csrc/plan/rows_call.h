// Matrix products of rows with constant weights, as a call of kernel family gemm.
#pragma once

#include <optional>
#include <vector>

#include "kernels/gemm/gemm.h"
#include "plan/build.h"
#include "plan/eltwise.h"
#include "plan/layer.h"

namespace cpuaccel::plan {

struct RowsCall {
  kernels::GemmCall call;  // without pointers
  std::optional<Id> bias, addend;
  Activation eltwise = Activation::none;
  TensorDesc src, dst;
  bool is_of_pixels = false;  // a convolution

  // `call` with the pointers that a step gets. The source is in[0]; the bias and the addend, if
  // there are any, are from in[next] on; `to` is dst. The caller sets the weights.
  kernels::GemmCall on(std::span<void* const> in, size_t next, void* to) const;

  // How many values it reads: the source, the bias and the addend, if there are any.
  size_t inputs() const { return size_t{1} + (bias ? 1 : 0) + (addend ? 1 : 0); }

  // Sets the inputs of `step` to `first`, then the bias and the addend, if there are any; sets its
  // output to `to`.
  void connect(Step& step, std::vector<Id> first, Id to) const;
};

// `layer` as such a product, or nullopt. Its weights must be one constant matrix, and all operands
// dense: channels_last for convolutions, else contiguous. Its post-ops may be an addition, a
// cpuaccel function, or both in this order. Convolutions that read each pixel alone are such
// products, too.
std::optional<RowsCall> as_rows(const Building& building, const Layer& layer);

}  // namespace cpuaccel::plan
