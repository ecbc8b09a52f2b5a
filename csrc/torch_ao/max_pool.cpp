// aten::quantized_max_pool2d, which max_pool2d of a quantized tensor calls.

#include <algorithm>
#include <cstdint>
#include <limits>

#include "kernels/maxpool/maxpool.h"
#include "ops/torch_compat/pooling.h"
#include "torch_ao/images.h"
#include "torch_ao/names.h"
#include "torch_ao/quint8.h"

namespace cpuaccel::torch_ao {
namespace {

struct MaxPoolWindow {
  at::IntArrayRef kernel, stride, padding, dilation;
};

// Whether torch's kernel raises an error for these arguments.
bool torch_rejects(const at::Tensor& self, const MaxPoolWindow& window) {
  constexpr int64_t kLargest = std::numeric_limits<int32_t>::max();
  const auto between = [](at::IntArrayRef values, int64_t lowest) {
    return values.size() == 2 && std::all_of(values.begin(), values.end(), [&](int64_t value) {
             return value >= lowest && value <= kLargest;
           });
  };
  return !between(window.kernel, 1) || !between(window.stride, 1) || !between(window.padding, 0) ||
         !between(window.dilation, 1) || window.padding[0] > window.kernel[0] / 2 ||
         window.padding[1] > window.kernel[1] / 2 || self.size(1) == 0 || self.size(2) == 0 ||
         self.size(3) == 0;
}

// Null, with `shape` filled in, if cpuaccel's kernel takes the call.
const char* max_pool_fallback_reason(const at::Tensor& self, const MaxPoolWindow& window,
                                     bool ceil_mode, kernels::MaxpoolShape& shape) {
  if (const char* reason = images_fallback_reason(self)) {
    return reason;
  }
  if (torch_rejects(self, window)) {
    return reasons::kInvalidArguments;
  }
  const auto result_size = [&](int64_t i) {
    return at::native::pooling_output_shape<int64_t>(self.size(i + 2), window.kernel[i],
                                                     window.padding[i], window.stride[i],
                                                     window.dilation[i], ceil_mode);
  };
  shape = {.N = self.size(0),
           .H = self.size(2),
           .W = self.size(3),
           .C = self.size(1),
           .OH = result_size(0),
           .OW = result_size(1),
           .KH = window.kernel[0],
           .KW = window.kernel[1],
           .SH = window.stride[0],
           .SW = window.stride[1],
           .PH = window.padding[0],
           .PW = window.padding[1],
           .DH = window.dilation[0],
           .DW = window.dilation[1]};
  return shape.OH <= 0 || shape.OW <= 0 ? reasons::kInvalidArguments : nullptr;
}

template <OpName kName>
at::Tensor max_pool2d(const at::Tensor& self, at::IntArrayRef kernel_size, at::IntArrayRef stride,
                      at::IntArrayRef padding, at::IntArrayRef dilation, bool ceil_mode) {
  if (engine_is_replaced()) {
    const MaxPoolWindow window{kernel_size, stride.empty() ? kernel_size : stride, padding,
                               dilation};
    kernels::MaxpoolShape shape;
    const char* reason = max_pool_fallback_reason(self, window, ceil_mode, shape);
    if (reason == nullptr) {
      CPUACCEL_KERNEL_CALL(max_pool2d);
      const auto images = empty_images_as(self, shape.OH, shape.OW);
      kernels::maxpool_u8(shape, bytes(self), mutable_bytes(images));
      return with_torch_strides(images, self);
    }
    report_fallback(kName.text, reason);
  }
  return call_torch(kName.text, self, kernel_size, stride, padding, dilation, ceil_mode).toTensor();
}

CPUACCEL_OVERRIDES{
    CPUACCEL_OVERRIDE("aten::quantized_max_pool2d", c10::DispatchKey::QuantizedCPU, max_pool2d),
};

}  // namespace

}  // namespace cpuaccel::torch_ao
