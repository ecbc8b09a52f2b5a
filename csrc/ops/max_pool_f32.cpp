// aten::max_pool2d_with_indices of contiguous float tensors; max_pool2d calls it too.
#include <ATen/EmptyTensor.h>
#include <ATen/core/Tensor.h>

#include <algorithm>
#include <limits>
#include <tuple>
#include <vector>

#include "kernels/maxpool_f32/maxpool_f32.h"
#include "ops/kernel_call.h"
#include "ops/override.h"
#include "ops/torch_compat/cpu_kernels.h"
#include "ops/torch_compat/pooling.h"

namespace cpuaccel::ops {
namespace {

using kernels::MaxpoolF32Shape;

struct Window {
  at::IntArrayRef kernel, stride, padding, dilation;
};

bool contiguous_floats(const at::Tensor& self) {
  return self.scalar_type() == at::kFloat && self.layout() == at::kStrided &&
         (self.dim() == 3 || self.dim() == 4) && self.numel() > 0 && self.is_contiguous() &&
         self.suggest_memory_format() == at::MemoryFormat::Contiguous;
}

bool pair_of(at::IntArrayRef values, int64_t lowest) {
  constexpr int64_t kLargest = std::numeric_limits<int16_t>::max();
  return values.size() == 2 && std::all_of(values.begin(), values.end(), [&](int64_t value) {
           return value >= lowest && value <= kLargest;
         });
}

// Whether cpuaccel's kernel takes the call; sets `shape`. Invalid arguments give false: torch
// raises the error.
bool supported(const at::Tensor& self, const Window& window, bool ceil_mode,
               MaxpoolF32Shape& shape) {
  if (!contiguous_floats(self) || !pair_of(window.kernel, 1) || !pair_of(window.stride, 1) ||
      !pair_of(window.padding, 0) || !pair_of(window.dilation, 1)) {
    return false;
  }
  shape = {.H = self.size(-2),
           .W = self.size(-1),
           .KH = window.kernel[0],
           .KW = window.kernel[1],
           .SH = window.stride[0],
           .SW = window.stride[1],
           .PH = window.padding[0],
           .PW = window.padding[1],
           .DH = window.dilation[0],
           .DW = window.dilation[1]};
  // If the image is smaller than the dilation, a window may have no tap inside.
  if (shape.PH > shape.KH / 2 || shape.PW > shape.KW / 2 || shape.H < shape.DH ||
      shape.W < shape.DW || shape.H * shape.W > std::numeric_limits<int32_t>::max()) {
    return false;
  }
  shape.planes = self.numel() / (shape.H * shape.W);
  const auto result_size = [&](int64_t size, size_t i) {
    return at::native::pooling_output_shape<int64_t>(
        size, window.kernel[i], window.padding[i], window.stride[i], window.dilation[i], ceil_mode);
  };
  // torch requires that a whole window fits.
  if (shape.H + 2 * shape.PH < shape.DH * (shape.KH - 1) + 1 ||
      shape.W + 2 * shape.PW < shape.DW * (shape.KW - 1) + 1) {
    return false;
  }
  shape.OH = result_size(shape.H, 0);
  shape.OW = result_size(shape.W, 1);
  return shape.OH > 0 && shape.OW > 0;
}

template <OpName kName>
std::tuple<at::Tensor, at::Tensor> max_pool2d_with_indices(
    const at::Tensor& self, at::IntArrayRef kernel_size, at::IntArrayRef stride,
    at::IntArrayRef padding, at::IntArrayRef dilation, bool ceil_mode) {
  MaxpoolF32Shape shape;
  const Window window{kernel_size, stride.empty() ? kernel_size : stride, padding, dilation};
  if (!supported(self, window, ceil_mode, shape)) {
    return at::cpu::max_pool2d_with_indices(self, kernel_size, stride, padding, dilation,
                                            ceil_mode);
  }
  CPUACCEL_KERNEL_CALL(max_pool2d);
  auto sizes = self.sizes().vec();
  sizes[sizes.size() - 2] = shape.OH;
  sizes[sizes.size() - 1] = shape.OW;
  auto result = at::detail::empty_cpu(sizes, at::kFloat, false, std::nullopt);
  auto indices = at::detail::empty_cpu(sizes, at::kLong, false, std::nullopt);
  kernels::maxpool_f32(shape, self.const_data_ptr<float>(), result.mutable_data_ptr<float>(),
                       indices.mutable_data_ptr<int64_t>());
  return {std::move(result), std::move(indices)};
}

CPUACCEL_OVERRIDES{
    CPUACCEL_OVERRIDE("aten::max_pool2d_with_indices", c10::DispatchKey::CPU,
                      max_pool2d_with_indices),
};

}  // namespace

}  // namespace cpuaccel::ops
