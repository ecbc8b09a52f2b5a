// Which of torch's quantized engines ours stands in for. Whoever asks for another one gets torch's
// kernels.
#pragma once

#include <ATen/Context.h>

namespace cpuaccel::ops {

// x86: the engine of that name. Arm, where torch refuses it: onednn, whose linear layers take qint8
// as well as quint8, and tensors of one dimension. We take qint8 in its convolutions too.
struct TorchEngine {
  at::QEngine name;
  bool qint8;
  int64_t least_linear_dims;
  // Torch runs weights with zero points other than 0.
  bool weight_zero_points;
  // Its transposed convolutions are right: those of torch 2.10's oneDNN are off by up to the whole
  // range on Arm, at all strides.
  bool transposed_convolutions;
  // unpack() of a convolution gives its weights channels last, however they came.
  bool channels_last_weights;
  // Its ops with sums and functions fused cast packed objects to classes of torch's, unchecked.
  bool casts_objects;
};

#if defined(__aarch64__)
inline constexpr TorchEngine kOurEngine{.name = at::QEngine::ONEDNN,
                                        .qint8 = true,
                                        .least_linear_dims = 1,
                                        .weight_zero_points = false,
                                        .transposed_convolutions = false,
                                        .channels_last_weights = false,
                                        .casts_objects = true};
#else
inline constexpr TorchEngine kOurEngine{.name = at::QEngine::X86,
                                        .qint8 = false,
                                        .least_linear_dims = 2,
                                        .weight_zero_points = true,
                                        .transposed_convolutions = true,
                                        .channels_last_weights = true,
                                        .casts_objects = false};
#endif

inline bool our_engine() { return at::globalContext().qEngine() == kOurEngine.name; }

}  // namespace cpuaccel::ops
