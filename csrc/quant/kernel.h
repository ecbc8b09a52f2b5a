// The contract between a quantised layer and the library that runs it.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>

#include "base/counters.h"
#include "quant/epilogue.h"
#include "quant/weight.h"

namespace cpuaccel::quant {

enum class PostOp : uint8_t {
  none,
  relu,
  leaky_relu,
  tanh,
  sum,
  sum_relu,
  hardswish,
  silu,
  gelu,  // by erf
  gelu_tanh,
};

// One execution: pointers, sizes and quantisers. Activations are channels last, uint8 (or `s8`);
//   acc = sum (src - src_zero_point) * (weight - zero_point)
//   real = src_scale * weight_scale * acc + bias
//   sum:   real += sum_scale * (dst_before - sum_zero_point)
//   dst = clamp(round(post(real) / dst_scale) + dst_zero_point, 0, 255), or real where dst is f32
struct QuantCall {
  const uint8_t* src = nullptr;
  // Dynamic linear: the source is f32 and is quantised with the source's scale and zero point.
  const float* src_f32 = nullptr;
  int64_t N = 0;  // images, or rows of a linear layer
  std::array<int64_t, 3> src_dims{1, 1, 1}, dst_dims{1, 1, 1};
  // src and a dst of bytes are int8, and their zero points too. Only our own kernels see it, where
  // torch's engine takes qint8.
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
  // Whether the fastest way is found by timing; else by tables.
  bool timed = false;
  // What follows on dst, which then is uint8; null: nothing. A kernel sees it only if it has said
  // that it fuses it.
  const Epilogue* epilogue = nullptr;
};

inline int64_t volume(const std::array<int64_t, 3>& dims) { return dims[0] * dims[1] * dims[2]; }

// Numbers of a call's result.
inline int64_t dst_count(const LayerShape& shape, const QuantCall& call) {
  return call.N * shape.OC * volume(call.dst_dims);
}

// A layer packed for one library. run() may be called from several threads at once.
class Kernel {
 public:
  Kernel() = default;
  virtual ~Kernel() = default;
  Kernel(const Kernel&) = delete;
  Kernel& operator=(const Kernel&) = delete;

  virtual Provider provider() const = 0;

  // Null if this call can be run, else the reason why it can't (a literal, for the counters).
  virtual const char* refuses(const QuantCall& call) = 0;
  // Runs the call and returns null, or does nothing and returns what refuses() would.
  virtual const char* run(const QuantCall& call) = 0;
  // True if run() does call.epilogue too, tile by tile. Else the layer does it after run().
  virtual bool fuses_epilogue(const QuantCall& /*call*/) { return false; }

  // Whether parallel_for alone splits up what the last call did, as a team's threads need.
  virtual bool fits_team() const { return provider() == Provider::own; }

  // The weights again: plain int8, torch's layout, contiguous.
  virtual at::Tensor unpack() = 0;
  // Bytes held for weights, offsets and packed copies.
  virtual int64_t bytes() = 0;
  // The library's name for what ran last, empty before the first call.
  virtual std::string implementation() = 0;

  // Sums are exact where no source byte is above this: see quant/pair_sums.h.
  virtual uint8_t largest_source() const { return 255; }
};

// Kernel::run() with the call's epilogue, done after it where the kernel does not fuse it.
const char* run_with_epilogue(Kernel& kernel, const LayerShape& shape, const QuantCall& call);

}  // namespace cpuaccel::quant
