// Problem: one int8 convolution, transposed convolution or matrix product, described without
// pointers. It determines a oneDNN primitive and is the key of the primitive cache.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/api.h"
#include "dnnl/post_op.h"

namespace cpuaccel::dnnl_layer {

enum class Kind : uint8_t { convolution, deconvolution, matmul };

//   dst[n, oc, x] = requantize(post(scales[oc] * acc[n, oc, x] + bias[oc]))
//   acc = sum over ic, taps of (src - src_zero_point) * weights
// The accumulation is followed by scale, bias, post-op and requantization, in this order.
// Parameters of post-ops:
//   leaky_relu: alpha is the negative slope
//   sum, sum_relu: dst += alpha * (dst_before - sum_zero_point)
//   tanh and all activations but relu: beta is the scale of the requantization, which comes after
//     them; 1 for an f32 dst
// src u8 N x spatial x IC (channels last), weights s8, dst u8 or f32 N x spatial x OC.
// matmul: spatial == 0, src N x IC (row major), weights IC x OC, dst N x OC.
struct Problem {
  Kind kind = Kind::convolution;
  PostOp post = PostOp::none;
  bool bias = false;
  bool src_zero_point = false;
  bool dst_zero_point = false;
  bool f32_dst = false;
  int spatial = 2;
  int threads = 1;
  int isa = 0;
  int implementation = 0;  // index into oneDNN's implementations of it, in oneDNN's order
  int slices = 1;          // dnnl/slices.h
  int32_t sum_zero_point = 0;
  float alpha = 0.0f;
  float beta = 1.0f;
  int64_t N = 0, IC = 0, OC = 0, groups = 1;
  // The first `spatial` entries count, slowest dimension first; the others stay zero.
  std::array<int64_t, 3> src{}, dst{}, kernel{}, stride{}, dilation{}, padding_l{}, padding_r{};

  bool operator==(const Problem&) const = default;
};

// The product of the first `spatial` entries of `sizes`.
int64_t volume(const std::array<int64_t, 3>& sizes, int spatial);

size_t hash(const Problem& problem) noexcept;

// For logs: "conv u8s8u8 n1 ic64 oc64 g1 src56x56 k3x3 s1x1 ...".
CPUACCEL_API std::string to_string(const Problem& problem);

}  // namespace cpuaccel::dnnl_layer
