#include "graph/rows_call.h"

#include <utility>

#include "graph/gemm_type.h"

namespace cpuaccel::graph {
namespace {

using kernels::GemmType;

// In memory as torch's matrices are; the rows of all dimensions but the last.
struct Rows {
  GemmType type;
  int64_t rows, columns;
};
std::optional<Rows> dense_rows(const Building& building, Id id) {
  const auto& desc = building.desc(id);
  const auto type = gemm_type(building.type(id));
  if (!type || desc.sizes.empty() || desc.sizes.back() == 0 ||
      !same_places(desc, dense(desc.sizes, Order::contiguous))) {
    return std::nullopt;
  }
  return Rows{*type, count_of(desc.sizes) / desc.sizes.back(), desc.sizes.back()};
}

// What follows the product; false if that is not all of it.
bool takes(RowsCall& rows, const Building& building, const PostOp& post_op) {
  if (!post_op.operand) {
    rows.function = function_of(post_op);
    return rows.function.has_value();
  }
  const auto addend = dense_rows(building, *post_op.operand);
  if (post_op.algorithm != dnnl::algorithm::binary_add || !addend ||
      building.desc(*post_op.operand).sizes != rows.dst.sizes) {
    return false;
  }
  rows.addend = *post_op.operand;
  rows.call.c = {nullptr, addend->type, rows.call.N, 1, 0};
  rows.call.beta = 1.0f;
  return true;
}

}  // namespace

kernels::GemmCall RowsCall::on(std::span<void* const> in, size_t next, void* to) const {
  auto now = call;
  now.a.data = in[0];
  now.bias.data = bias ? in[next++] : nullptr;
  now.c.data = addend ? in[next] : nullptr;
  now.dst.data = to;
  if (function) {
    now.after = {kernels::function_f32_of, &*function};
  }
  return now;
}

void RowsCall::connect(Step& step, std::vector<Id> first, Id to) const {
  step.inputs = std::move(first);
  for (const auto& operand : {bias, addend}) {
    if (operand) {
      step.inputs.push_back(*operand);
    }
  }
  step.outputs = {to};
  step.output_descs = {dst};
}

std::optional<RowsCall> as_rows(const Building& building, const Layer& layer) {
  const auto& attributes = layer.operation->attributes;
  if (layer.kind != Layer::Kind::matmul || !building.is_constant(layer.weights) ||
      attribute(attributes, "transpose_a", false) || layer.post_ops.size() > 1) {
    return std::nullopt;
  }
  const auto src = dense_rows(building, layer.src);
  const auto& weights = building.desc(layer.weights);
  const auto weights_type = gemm_type(building.type(layer.weights));
  const auto dst_type = gemm_type(building.type(layer.dst));
  if (!src || !weights_type || !dst_type || weights.sizes.size() != 2) {
    return std::nullopt;
  }
  const size_t k = attribute(attributes, "transpose_b", false) ? 1 : 0;
  RowsCall rows;
  auto& call = rows.call;
  call.M = src->rows;
  call.K = src->columns;
  call.N = weights.sizes[1 - k];
  if (weights.sizes[k] != call.K) {
    return std::nullopt;
  }
  call.a = {nullptr, src->type, call.K, 1, 0};
  call.b = {nullptr, *weights_type, weights.strides[k], weights.strides[1 - k], 0};
  call.dst = {nullptr, *dst_type, call.N, 0};
  Sizes sizes = building.desc(layer.src).sizes;
  sizes.back() = call.N;
  rows.dst = dense(sizes, Order::contiguous);
  if (layer.bias) {
    const auto bias = dense_rows(building, *layer.bias);
    if (!bias || bias->rows != 1 || bias->columns != call.N) {
      return std::nullopt;
    }
    rows.bias = *layer.bias;
    call.bias = {nullptr, bias->type, kernels::GemmBiasAxis::n};
  }
  if (!layer.post_ops.empty() && !takes(rows, building, layer.post_ops.front())) {
    return std::nullopt;
  }
  return rows;
}

}  // namespace cpuaccel::graph
