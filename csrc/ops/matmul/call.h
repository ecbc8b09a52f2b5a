// A matrix product, or a batch of them, as torch asks for it and as kernels take it.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>

namespace cpuaccel::ops {

// Strides in elements: of the batch, of rows and of columns.
struct Operand {
  const void* data = nullptr;
  std::array<int64_t, 3> strides{};
};

//   dst[b, m, n] = alpha * sum over k of src[b, m, k] * weights[b, k, n] + bias[n] + beta * c[b, m,
//   n]
// Of float, BFloat16 or Half. beta 0: c is not read. No size is 0.
struct MatmulCall {
  at::ScalarType type = at::kFloat;  // of dst, c and bias
  // Another one under fast math and autocast only.
  at::ScalarType src_type = at::kFloat, weights_type = at::kFloat;
  bool rounds = false;  // f32 operands may be rounded to BFloat16
  // Weights once more, as pack_panels made them, or pack_pairs for BF16 arithmetic.
  const void* panels = nullptr;
  const void* pairs = nullptr;
  bool batched = false;  // of three dimensions
  int64_t batch = 1, M = 0, N = 0, K = 0;
  Operand src, weights;
  void* dst = nullptr;
  std::array<int64_t, 3> dst_strides{};  // one of rows and columns is 1
  float alpha = 1.0f;
  float beta = 0.0f;
  Operand c;                   // may be dst itself, and overlaps no other part of it
  const void* bias = nullptr;  // N values next to each other, or none; then alpha is 1, beta 0
};

// Sets the sizes of src times weights, M x K and K x N, or of three dimensions if `batched`.
// Returns false for sizes that do not fit, which torch reports, and for types, layouts and empty
// tensors that no kernel here takes. Every product calls it, so it checks nothing else.
bool set_sizes(MatmulCall& call, const at::Tensor& src, const at::Tensor& weights, bool batched);

// Takes the data of these tensors, which have the sizes but may be of another type.
void set_operands(MatmulCall& call, const at::Tensor& src, const at::Tensor& weights);

// Whether `call` can write its result to `out`: of its sizes and type, dense along rows or columns,
// no part of an operand. `out` becomes dst.
bool set_dst(MatmulCall& call, const at::Tensor& out, const at::Tensor& src,
             const at::Tensor& weights);

// A fresh tensor for the result of `call`, which becomes dst.
at::Tensor make_dst(MatmulCall& call);

}  // namespace cpuaccel::ops
