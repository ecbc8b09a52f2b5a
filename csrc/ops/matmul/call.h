// The arguments of a matrix product or a batch of them, shared by all providers.
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

//   dst[b, m, n] = alpha * sum over k of src[b, m, k] * weights[b, k, n]
//                  + bias[n] + beta * c[b, m, n]
//
// The types are float, BFloat16 or Half. If beta is 0, c is not read. No size is 0.
struct MatmulCall {
  at::ScalarType type = at::kFloat;  // of dst, c and bias
  // Differ from `type` only under fast math and autocast.
  at::ScalarType src_type = at::kFloat, weights_type = at::kFloat;
  bool rounds = false;  // f32 operands may be rounded to BFloat16
  // The same weights packed by pack_panels, or by pack_pairs for BF16 arithmetic.
  const void* panels = nullptr;
  const void* pairs = nullptr;
  bool batched = false;  // operands of three dimensions
  int64_t batch = 1, M = 0, N = 0, K = 0;
  Operand src, weights;
  void* dst = nullptr;
  std::array<int64_t, 3> dst_strides{};  // the stride of rows or of columns is 1
  float alpha = 1.0f;
  float beta = 0.0f;
  Operand c;                   // may be dst itself, but may not overlap it otherwise
  const void* bias = nullptr;  // N adjacent values, or none; then alpha is 1, beta 0
};

// Sets the sizes of src times weights: M x K and K x N, with a batch dimension if `batched`.
// Returns false if the sizes do not fit, which torch reports, and for types, layouts and empty
// tensors that no kernel here takes. Every product calls it, so it checks nothing else.
bool set_sizes(MatmulCall& call, const at::Tensor& src, const at::Tensor& weights, bool batched);

// Sets the operands' data and strides. The tensors have the sizes of `call`, but may have another
// type.
void set_operands(MatmulCall& call, const at::Tensor& src, const at::Tensor& weights);

// Sets dst to `out` and returns true if `call` can write to it: `out` has the result's sizes and
// type, is dense along rows or columns, and overlaps no operand.
bool set_dst(MatmulCall& call, const at::Tensor& out, const at::Tensor& src,
             const at::Tensor& weights);

// Allocates the result of `call`, and sets dst to it.
at::Tensor make_dst(MatmulCall& call);

}  // namespace cpuaccel::ops
