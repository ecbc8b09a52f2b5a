#include "graph/few_rows_step.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "graph/float_function.h"
#include "graph/gemm_type.h"
#include "kernels/gemm/gemm.h"

namespace cpuaccel::graph {
namespace {

using Algorithm = dnnl::algorithm;
using kernels::FloatFunction;
using kernels::GemmType;

// Up to so many reading the weights takes longer than multiplying; of bf16, whose products are
// faster in that arithmetic where there are more, one.
constexpr int64_t most_rows(GemmType weights) { return weights == GemmType::f32 ? 4 : 1; }

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

class FewRowsStep : public Step {
 public:
  kernels::GemmCall call;  // without data
  bool bias = false, sum = false;
  std::optional<FloatFunction> function;

  void run(std::span<void* const> in, std::span<void* const> out) const override {
    auto now = call;
    size_t next = 2;
    now.a.data = in[0];
    now.b.data = in[1];
    now.bias.data = bias ? in[next++] : nullptr;
    now.c.data = sum ? in[next] : nullptr;
    now.dst.data = out[0];
    if (function) {
      now.after = {kernels::function_f32_of, &*function};
    }
    kernels::gemm(now);
  }
  std::string kernel() const override {
    return std::string("cpuaccel gemm:") + kernels::first_usable(kernels::gemm_kernels()).name;
  }
  bool keeps_nothing() const override { return true; }
  bool fits_team() const override { return true; }
};

}  // namespace

bool add_few_rows(Building& building, const Layer& layer) {
  const auto& attributes = layer.operation->attributes;
  if (layer.kind != Layer::Kind::matmul || !building.is_constant(layer.weights) ||
      building.fast_math() || attribute(attributes, "transpose_a", false) ||
      layer.post_ops.size() > 1) {
    return false;
  }
  const auto src = dense_rows(building, layer.src);
  const auto& weights = building.desc(layer.weights);
  const auto weights_type = gemm_type(building.type(layer.weights));
  const auto dst_type = gemm_type(building.type(layer.dst));
  if (!src || !weights_type || !dst_type || weights.sizes.size() != 2 ||
      src->rows > most_rows(*weights_type)) {
    return false;
  }
  const size_t k = attribute(attributes, "transpose_b", false) ? 1 : 0;
  auto step = std::make_unique<FewRowsStep>();
  auto& call = step->call;
  call.M = src->rows;
  call.K = src->columns;
  call.N = weights.sizes[1 - k];
  if (weights.sizes[k] != call.K) {
    return false;
  }
  call.a = {nullptr, src->type, call.K, 1, 0};
  call.b = {nullptr, *weights_type, weights.strides[k], weights.strides[1 - k], 0};
  call.dst = {nullptr, *dst_type, call.N, 0};
  Sizes sizes = building.desc(layer.src).sizes;
  sizes.back() = call.N;
  const auto dst = dense(sizes, Order::contiguous);
  step->inputs = {layer.src, layer.weights};
  if (layer.bias) {
    const auto bias = dense_rows(building, *layer.bias);
    if (!bias || bias->rows != 1 || bias->columns != call.N) {
      return false;
    }
    step->bias = true;
    step->inputs.push_back(*layer.bias);
    call.bias = {nullptr, bias->type, kernels::GemmBiasAxis::n};
  }
  for (const auto& post_op : layer.post_ops) {
    if (!post_op.operand) {
      step->function = function_of(post_op);
      if (!step->function) {
        return false;
      }
      continue;
    }
    const auto addend = dense_rows(building, *post_op.operand);
    if (post_op.algorithm != Algorithm::binary_add || !addend ||
        building.desc(*post_op.operand).sizes != sizes) {
      return false;
    }
    step->sum = true;
    step->inputs.push_back(*post_op.operand);
    call.c = {nullptr, addend->type, call.N, 1, 0};
    call.beta = 1.0f;
  }
  step->outputs = {layer.dst};
  step->output_descs = {dst};
  building.add(std::move(step));
  return true;
}

}  // namespace cpuaccel::graph
