// Products of rows with weights, as family gemm takes them.
#pragma once

#include <optional>
#include <vector>

#include "graph/build.h"
#include "graph/float_function.h"
#include "graph/layer.h"
#include "kernels/gemm/gemm.h"

namespace cpuaccel::graph {

struct RowsCall {
  kernels::GemmCall call;  // without data
  std::optional<Id> bias, addend;
  std::optional<kernels::FloatFunction> function;
  TensorDesc src, dst;
  bool is_of_pixels = false;  // a convolution

  // `call` on what a step is given: the source, the bias and the addend that there are, from
  // in[next] on, and dst. Weights are the caller's to set.
  kernels::GemmCall on(std::span<void* const> in, size_t next, void* to) const;

  // How many values there are to read: the source, the bias and the addend.
  size_t inputs() const { return size_t{1} + (bias ? 1 : 0) + (addend ? 1 : 0); }

  // Says what `step` reads, `first` and the bias and the addend that there are, and what it writes.
  void connect(Step& step, std::vector<Id> first, Id to) const;
};

// `layer`, if its weights are one constant matrix, all lies in memory as torch's matrices or as
// pixels do, and a sum, a function of ours or both is all that follows. Convolutions that read each
// pixel alone are such products too.
std::optional<RowsCall> as_rows(const Building& building, const Layer& layer);

}  // namespace cpuaccel::graph
