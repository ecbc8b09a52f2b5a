// The quantized engine of torch (torch.backends.quantized.engine) that cpuaccel replaces. Under any
// other engine, torch's kernels run.
#pragma once

#include <ATen/Context.h>

namespace cpuaccel::torch_ao {

// On x86 CPUs: engine "x86". On Arm, where torch rejects that: "onednn", whose linear layers take
// qint8 as well as quint8, and tensors of one dimension. cpuaccel takes qint8 in its convolutions
// too.
struct TorchEngine {
  at::QEngine name;
  bool qint8;
  int64_t least_linear_dims;
  // torch runs weights with zero points other than 0.
  bool weight_zero_points;
  // Its transposed convolutions are right. Those of torch 2.10's oneDNN are off by up to the whole
  // range on Arm, at all strides.
  bool transposed_convolutions;
  // unpack() of a convolution returns channels-last weights, whatever their layout was.
  bool channels_last_weights;
  // Its ops with fused sums and post-ops cast packed objects to torch's classes, unchecked.
  bool casts_objects;
};

#if defined(__aarch64__)
inline constexpr TorchEngine kReplacedEngine{.name = at::QEngine::ONEDNN,
                                             .qint8 = true,
                                             .least_linear_dims = 1,
                                             .weight_zero_points = false,
                                             .transposed_convolutions = false,
                                             .channels_last_weights = false,
                                             .casts_objects = true};
#else
inline constexpr TorchEngine kReplacedEngine{.name = at::QEngine::X86,
                                             .qint8 = false,
                                             .least_linear_dims = 2,
                                             .weight_zero_points = true,
                                             .transposed_convolutions = true,
                                             .channels_last_weights = true,
                                             .casts_objects = false};
#endif

inline bool engine_is_replaced() { return at::globalContext().qEngine() == kReplacedEngine.name; }

}  // namespace cpuaccel::torch_ao
