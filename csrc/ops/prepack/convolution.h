// cpuaccel::packed_convolution: arguments and helpers that its kernel and its gradient share.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

namespace cpuaccel::ops {

#define CPUACCEL_PACKED_CONVOLUTION_ARGUMENTS                                                \
  const at::Tensor &input, at::TensorList packed, int64_t panel, at::IntArrayRef weight,     \
      const std::optional<at::Tensor>&bias, at::IntArrayRef stride, at::IntArrayRef padding, \
      at::IntArrayRef dilation, int64_t groups, bool channels_last

// The plain weight, of sizes `weight`, with channels last in memory if it was so before packing.
at::Tensor unpack_convolution(at::TensorList packed, int64_t panel, at::IntArrayRef weight,
                              bool channels_last);

// torch's convolution on the unpacked weight, by ops that torch can differentiate and transform.
at::Tensor convolution_by_torch(CPUACCEL_PACKED_CONVOLUTION_ARGUMENTS);

}  // namespace cpuaccel::ops
