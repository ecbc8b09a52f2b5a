#include "plan/rows_call.h"

#include <utility>

#include "kernels/eltwise_f32/eltwise_f32.h"
#include "plan/widened.h"

namespace cpuaccel::plan {
namespace {

// A dense tensor in `format` as a matrix: the columns are the channels of pixels in channels_last,
// else the last dimension; all other dimensions are rows. nullopt for other layouts and dtypes.
struct Rows {
  DataType type;
  int64_t rows, columns;
};
std::optional<Rows> dense_rows(const Building& building, Id id,
                               MemoryFormat format = MemoryFormat::contiguous) {
  const auto& desc = building.desc(id);
  const auto type = building.type(id);
  if (!is_f32_or_half(type) || desc.sizes.empty() ||
      !same_layout(desc, dense(desc.sizes, format))) {
    return std::nullopt;
  }
  const bool pixels = format == MemoryFormat::channels_last && desc.sizes.size() > 2;
  const int64_t columns = pixels ? desc.sizes[1] : desc.sizes.back();
  if (columns == 0) {
    return std::nullopt;
  }
  return Rows{type, count_of(desc.sizes) / columns, columns};
}

// Adds the post-ops to `rows`: an addition, a function, or a function of a sum. Returns false if
// there is anything else.
bool takes(RowsCall& rows, const Building& building, const std::vector<FloatPostOp>& post_ops,
           MemoryFormat format) {
  auto next = post_ops.begin();
  if (next != post_ops.end() && next->operand) {
    if (next->algorithm != dnnl::algorithm::binary_add ||
        building.desc(*next->operand).sizes != rows.dst.sizes) {
      return false;
    }
    const auto addend = dense_rows(building, *next->operand, format);
    if (!addend) {
      return false;
    }
    rows.addend = *next->operand;
    rows.call.c = {nullptr, addend->type, rows.call.N, 1, 0};
    rows.call.beta = 1.0f;
    ++next;
  }
  if (next != post_ops.end()) {
    rows.eltwise = eltwise_of(*next);
    if (rows.eltwise == Activation::none) {
      return false;
    }
    ++next;
  }
  return next == post_ops.end();
}

// Whether a convolution is a matrix product of pixels.
bool is_of_pixels(const Building& building, const Layer& layer) {
  return layer.kind == Layer::Kind::convolution &&
         is_pixelwise(layer, building.desc(layer.weights).sizes) &&
         attribute(layer.operation->attributes, "groups", int64_t{1}) == 1;
}

// Which dimensions of the weights are K and N; nullopt if a layer is no product of rows.
struct Axes {
  size_t k, n;
};
std::optional<Axes> axes_of(const Building& building, const Layer& layer) {
  if (is_of_pixels(building, layer)) {
    return Axes{1, 0};
  }
  const auto& attributes = layer.operation->attributes;
  if (layer.kind != Layer::Kind::matmul || building.desc(layer.weights).sizes.size() != 2 ||
      attribute(attributes, "transpose_a", false)) {
    return std::nullopt;
  }
  const size_t k = attribute(attributes, "transpose_b", false) ? 1 : 0;
  return Axes{k, 1 - k};
}

}  // namespace

kernels::GemmCall RowsCall::on(std::span<void* const> in, size_t next, void* to) const {
  auto now = call;
  now.a.data = in[0];
  now.bias.data = bias ? in[next++] : nullptr;
  now.c.data = addend ? in[next] : nullptr;
  now.dst.data = to;
  if (eltwise != Activation::none) {
    now.after = {kernels::eltwise_f32_of, &eltwise};
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
  const auto axes = axes_of(building, layer);
  if (!axes || !building.is_constant(layer.weights)) {
    return std::nullopt;
  }
  const bool pixels = layer.kind == Layer::Kind::convolution;
  const MemoryFormat format = pixels ? MemoryFormat::channels_last : MemoryFormat::contiguous;
  const auto src = dense_rows(building, layer.src, format);
  const auto& weights = building.desc(layer.weights);
  const auto weights_type = building.type(layer.weights);
  const auto dst_type = building.type(layer.dst);
  if (!src || !is_f32_or_half(weights_type) || !is_f32_or_half(dst_type) ||
      weights.sizes[axes->k] != src->columns) {
    return std::nullopt;
  }
  RowsCall rows;
  rows.is_of_pixels = pixels;
  rows.src = building.desc(layer.src);
  auto& call = rows.call;
  call.M = src->rows;
  call.K = src->columns;
  call.N = weights.sizes[axes->n];
  call.a = {nullptr, src->type, call.K, 1, 0};
  call.b = {nullptr, weights_type, weights.strides[axes->k], weights.strides[axes->n], 0};
  call.dst = {nullptr, dst_type, call.N, 0};
  Sizes sizes = rows.src.sizes;
  (pixels ? sizes[1] : sizes.back()) = call.N;
  rows.dst = dense(sizes, format);
  if (layer.bias) {
    const auto bias = dense_rows(building, *layer.bias);
    if (!bias || bias->rows != 1 || bias->columns != call.N) {
      return std::nullopt;
    }
    rows.bias = *layer.bias;
    call.bias = {nullptr, bias->type, kernels::GemmBiasAxis::n};
  }
  return takes(rows, building, layer.post_ops, format) ? std::optional(rows) : std::nullopt;
}

}  // namespace cpuaccel::plan
