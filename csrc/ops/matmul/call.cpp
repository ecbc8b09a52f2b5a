#include "ops/matmul/call.h"

#include <ATen/EmptyTensor.h>

#include "ops/data_type.h"
#include "ops/overlap.h"
#include "ops/plain_tensor.h"

namespace cpuaccel::ops {
namespace {

Operand operand(const at::Tensor& x) {
  const auto strides = x.strides();
  const size_t last = strides.size() - 1;
  return {x.const_data_ptr(), {last == 2 ? strides[0] : 0, strides[last - 1], strides[last]}};
}

}  // namespace

bool set_sizes(MatmulCall& call, const at::Tensor& src, const at::Tensor& weights, bool batched) {
  const auto type = src.scalar_type();
  const size_t dims = batched ? 3 : 2;
  const at::IntArrayRef rows = src.sizes(), columns = weights.sizes();
  if (!is_gemm_type(type) || weights.scalar_type() != type || rows.size() != dims ||
      columns.size() != dims || !is_plain(src) || !is_plain(weights)) {
    return false;
  }
  call.type = type;
  call.batched = batched;
  call.batch = batched ? rows[0] : 1;
  call.M = rows[dims - 2];
  call.K = rows[dims - 1];
  call.N = columns[dims - 1];
  return columns[dims - 2] == call.K && (!batched || columns[0] == call.batch) && call.batch != 0 &&
         call.M != 0 && call.N != 0 && call.K != 0;
}

void set_operands(MatmulCall& call, const at::Tensor& src, const at::Tensor& weights) {
  call.src_type = src.scalar_type();
  call.weights_type = weights.scalar_type();
  call.src = operand(src);
  call.weights = operand(weights);
}

bool set_dst(MatmulCall& call, const at::Tensor& out, const at::Tensor& src,
             const at::Tensor& weights) {
  const int64_t dims = src.dim();
  if (out.dim() != dims || out.scalar_type() != call.type || !is_plain(out) ||
      out.size(dims - 2) != call.M || out.size(dims - 1) != call.N ||
      (dims == 3 && out.size(0) != call.batch) || !out.is_non_overlapping_and_dense() ||
      !apart(out, src) || !apart(out, weights)) {
    return false;
  }
  call.dst_strides = operand(out).strides;
  call.dst = out.mutable_data_ptr();
  return call.dst_strides[1] == 1 || call.dst_strides[2] == 1;
}

at::Tensor make_dst(MatmulCall& call) {
  const size_t dims = call.batched ? 3 : 2;
  const std::array<int64_t, 3> sizes{call.batch, call.M, call.N};
  const at::IntArrayRef shape(sizes.data() + (3 - dims), dims);
  at::Tensor out = at::detail::empty_cpu(shape, call.type);
  call.dst_strides = {call.M * call.N, call.N, 1};
  call.dst = out.mutable_data_ptr();
  return out;
}

}  // namespace cpuaccel::ops
