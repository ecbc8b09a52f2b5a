// No-ops with the schemas and dispatch keys of real ops: what a call costs before any work.
//
// noop_X_input returns its input; noop_X_fresh returns a new tensor with room for the result, as
// the real op must. per_call.py builds and loads this file.
#include <ATen/native/quantized/PackedParams.h>
#include <ATen/ops/_empty_affine_quantized.h>
#include <ATen/ops/empty.h>
#include <torch/library.h>

#include <optional>

namespace {

using at::Tensor;
using Conv2dWeight = c10::intrusive_ptr<ConvPackedParamsBase<2>>;
using LinearWeight = c10::intrusive_ptr<LinearPackedParamsBase>;
using Tensors = c10::List<Tensor>;

Tensor quantized(const Tensor& like, double scale, int64_t zero_point) {
  return at::_empty_affine_quantized(like.sizes(), like.options().dtype(at::kQUInt8), scale,
                                     zero_point, like.suggest_memory_format());
}

Tensor floats(const Tensor& like) {
  return at::empty(like.sizes(), like.options().dtype(at::kFloat), like.suggest_memory_format());
}

template <typename... Rest>
Tensor input(const Tensor& x, Rest... /*rest*/) {
  return x;
}

// For ops on tensors like the first argument, or on a tensor and packed weights. The last two
// arguments are the scale and zero point of the result.
template <typename Weight>
Tensor fresh_weighted(const Tensor& x, const Weight& /*weight*/, double scale, int64_t zero_point) {
  return quantized(x, scale, zero_point);
}

Tensor fresh_scaled(const Tensor& x, double scale, int64_t zero_point) {
  return quantized(x, scale, zero_point);
}

Tensor fresh_unary(const Tensor& x) { return quantized(x, x.q_scale(), x.q_zero_point()); }

Tensor fresh_pool(const Tensor& x, at::IntArrayRef /*output_size*/) { return fresh_unary(x); }

Tensor fresh_dynamic(const Tensor& x, const LinearWeight& /*weight*/, bool /*reduce_range*/) {
  return floats(x);
}

Tensor fresh_quantize(const Tensor& x, double scale, int64_t zero_point, at::ScalarType /*dtype*/) {
  return quantized(x, scale, zero_point);
}

Tensor input_cat(const Tensors& tensors, int64_t /*dim*/, std::optional<double> /*scale*/,
                 std::optional<int64_t> /*zero_point*/) {
  return tensors.get(0);
}

Tensor fresh_cat(const Tensors& tensors, int64_t /*dim*/, std::optional<double> scale,
                 std::optional<int64_t> zero_point) {
  return quantized(tensors.get(0), *scale, *zero_point);
}

#define CPUACCEL_DEF(library, name, arguments)                 \
  library.def("noop_" name "_input(" arguments ") -> Tensor"); \
  library.def("noop_" name "_fresh(" arguments ") -> Tensor")

#define CPUACCEL_IMPL(library, name, input, fresh)      \
  library.impl("noop_" name "_input", TORCH_FN(input)); \
  library.impl("noop_" name "_fresh", TORCH_FN(fresh))

TORCH_LIBRARY(cpuaccel_bench, m) {
  CPUACCEL_DEF(m, "conv2d",
               "Tensor qx, __torch__.torch.classes.quantized.Conv2dPackedParamsBase packed_weight, "
               "float output_scale, int output_zero_point");
  CPUACCEL_DEF(m, "linear",
               "Tensor X, __torch__.torch.classes.quantized.LinearPackedParamsBase W_prepack, "
               "float Y_scale_i, int Y_zero_point_i");
  CPUACCEL_DEF(m, "linear_dynamic",
               "Tensor X, __torch__.torch.classes.quantized.LinearPackedParamsBase W_prepack, "
               "bool reduce_range=False");
  CPUACCEL_DEF(m, "binary", "Tensor qa, Tensor qb, float scale, int zero_point");
  CPUACCEL_DEF(m, "unary", "Tensor self");
  CPUACCEL_DEF(m, "scaled", "Tensor input, float output_scale, int output_zero_point");
  CPUACCEL_DEF(m, "pool", "Tensor self, SymInt[2] output_size");
  CPUACCEL_DEF(m, "cat", "Tensor[] qx, int dim, float? scale, int? zero_point");
  CPUACCEL_DEF(m, "quantize", "Tensor self, float scale, int zero_point, ScalarType dtype");
  CPUACCEL_DEF(m, "dequantize", "Tensor self");
}

TORCH_LIBRARY_IMPL(cpuaccel_bench, QuantizedCPU, m) {
  CPUACCEL_IMPL(m, "conv2d", (input<const Conv2dWeight&, double, int64_t>),
                fresh_weighted<Conv2dWeight>);
  CPUACCEL_IMPL(m, "linear", (input<const LinearWeight&, double, int64_t>),
                fresh_weighted<LinearWeight>);
  CPUACCEL_IMPL(m, "binary", (input<const Tensor&, double, int64_t>), fresh_weighted<Tensor>);
  CPUACCEL_IMPL(m, "unary", input<>, fresh_unary);
  CPUACCEL_IMPL(m, "scaled", (input<double, int64_t>), fresh_scaled);
  CPUACCEL_IMPL(m, "pool", input<at::IntArrayRef>, fresh_pool);
  CPUACCEL_IMPL(m, "cat", input_cat, fresh_cat);
  CPUACCEL_IMPL(m, "dequantize", input<>, floats);
}

TORCH_LIBRARY_IMPL(cpuaccel_bench, CPU, m) {
  CPUACCEL_IMPL(m, "linear_dynamic", (input<const LinearWeight&, bool>), fresh_dynamic);
  CPUACCEL_IMPL(m, "quantize", (input<double, int64_t, at::ScalarType>), fresh_quantize);
}

}  // namespace
