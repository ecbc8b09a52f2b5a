// Kernel: the interface that each provider (oneDNN, FBGEMM, cpuaccel's kernels) implements to run a
// quantized layer.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>

#include "base/api.h"
#include "base/counters.h"
#include "dnnl/post_op.h"
#include "quant/byte_post_ops.h"
#include "quant/weight.h"

namespace cpuaccel::quant {

using dnnl_layer::PostOp;

// The pointers, sizes and quantizers of one execution. Activations are channels last and uint8
// (int8 if `s8`):
//   acc = sum (src - src_zero_point) * (weight - zero_point)
//   real = src_scale * weight_scale * acc + bias
//   sum:   real += sum_scale * (dst_before - sum_zero_point)
//   dst = clamp(round(post(real) / dst_scale) + dst_zero_point, 0, 255), or real if dst is f32
struct QuantCall {
  const uint8_t* src = nullptr;
  // Dynamic linear: an f32 src, which is quantized with src_scale and src_zero_point.
  const float* src_f32 = nullptr;
  int64_t N = 0;  // images, or rows of a linear layer
  std::array<int64_t, 3> src_dims{1, 1, 1}, dst_dims{1, 1, 1};
  // src, dst (unless f32) and their zero points are int8. Only cpuaccel's kernels get such calls,
  // and only if torch's engine accepts qint8.
  bool s8 = false;
  float src_scale = 1.0f;
  int32_t src_zero_point = 0;
  void* dst = nullptr;
  bool f32_dst = false;
  float dst_scale = 1.0f;
  int32_t dst_zero_point = 0;
  PostOp post = PostOp::none;
  float negative_slope = 0.0f;
  float sum_scale = 1.0f;
  int32_t sum_zero_point = 0;
  // Whether tuning may choose what runs; otherwise tables choose it.
  bool may_tune = false;
  // The ops that follow on dst, which then is uint8; null if there are none. A kernel sees it only
  // if its fuses_byte_post_ops() returns true.
  const BytePostOps* byte_post_ops = nullptr;
};

inline int64_t volume(const std::array<int64_t, 3>& dims) { return dims[0] * dims[1] * dims[2]; }

// The number of elements of a call's dst.
inline int64_t dst_count(const LayerShape& shape, const QuantCall& call) {
  return call.N * shape.OC * volume(call.dst_dims);
}

// A layer with weights packed for one provider. run() may be called from several threads at once.
class Kernel {
 public:
  Kernel() = default;
  virtual ~Kernel() = default;
  Kernel(const Kernel&) = delete;
  Kernel& operator=(const Kernel&) = delete;

  virtual Provider provider() const = 0;

  // Null if the kernel can run this call, else the reason (a string literal, for the counters).
  virtual const char* unsupported_reason(const QuantCall& call) = 0;
  // Runs the call and returns null, or does nothing and returns the reason.
  virtual const char* run(const QuantCall& call) = 0;
  // Whether run() also applies call.byte_post_ops, tile by tile. If not, run_with_byte_post_ops()
  // does it after run().
  virtual bool fuses_byte_post_ops(const QuantCall& /*call*/) { return false; }

  // Whether the last call used no threads other than parallel_for's, as a team requires.
  virtual bool fits_team() const { return provider() == Provider::cpuaccel; }

  virtual Int8Weights unpack() = 0;
  // Bytes held for weights, offsets and packed copies.
  virtual int64_t bytes() = 0;
  // The library's name for the implementation that ran last. May be empty before the first call.
  virtual std::string implementation() = 0;

  // Sums are exact if no src byte is above this value (quant/pair_sums.h).
  virtual uint8_t largest_source() const { return 255; }
};

// Kernel::run() and then, if the kernel does not fuse them, the call's byte_post_ops.
CPUACCEL_API const char* run_with_byte_post_ops(Kernel& kernel, const LayerShape& shape,
                                                const QuantCall& call);

}  // namespace cpuaccel::quant
