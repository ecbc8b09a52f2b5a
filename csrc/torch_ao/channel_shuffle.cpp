// aten::channel_shuffle of quantized tensors.

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>

#include "base/parallel.h"
#include "kernels/channel_shuffle/channel_shuffle.h"
#include "torch_ao/images.h"
#include "torch_ao/names.h"
#include "torch_ao/torch_compat.h"

namespace cpuaccel::torch_ao {
namespace {

constexpr int64_t kShuffleGrainBytes = 131072;  // a few microseconds, the cost of waking a thread

const char* shuffle_fallback_reason(const at::Tensor& self, int64_t groups) {
  if (const char* reason = quint8_fallback_reason(self)) {
    return reason;
  }
  const bool possible =
      self.dim() == 4 && groups > 0 && self.numel() > 0 && self.size(1) % groups == 0;
  if (!possible) {
    return reasons::kInvalidArguments;
  }
  // torch converts contiguous images to channels last, and its result back.
  if (self.is_contiguous(at::MemoryFormat::ChannelsLast)) {
    return groups == 2 ? nullptr : "input is channels_last and groups is not 2";
  }
  return self.is_contiguous() ? nullptr : reasons::kNotDense;
}

// Channel c of group g becomes channel c * groups + g, as copies of whole planes.
void shuffle(const at::Tensor& src, const at::Tensor& dst, int64_t groups) {
  const int64_t channels = src.size(1);
  const int64_t columns = channels / groups;
  const int64_t pixels = src.size(2) * src.size(3);
  const uint8_t* from = bytes(src);
  uint8_t* to = mutable_bytes(dst);
  const auto move = [&](int64_t begin, int64_t end) {
    for (int64_t plane = begin; plane < end; ++plane) {
      const int64_t n = plane / channels, c = plane % channels;
      const int64_t place = n * channels + c % columns * groups + c / columns;
      std::memcpy(to + place * pixels, from + plane * pixels, static_cast<size_t>(pixels));
    }
  };
  parallel_for(0, src.size(0) * channels, std::max<int64_t>(kShuffleGrainBytes / pixels, 1), move);
}

// Interleaves the channels of two groups, pixel by pixel.
at::Tensor shuffled_pixels(const at::Tensor& self) {
  const int64_t channels = self.size(1), columns = channels / 2;
  const auto images = empty_images_as(self, self.size(2), self.size(3));
  const std::array<kernels::ChannelShuffleSource, 2> groups{
      {{bytes(self), channels}, {bytes(self) + columns, channels}}};
  kernels::channel_shuffle_u8(groups, mutable_bytes(images), self.numel() / channels, columns,
                              nullptr);
  return with_torch_strides(images, self);
}

template <OpName kName>
at::Tensor channel_shuffle(const at::Tensor& self, int64_t groups) {
  if (engine_is_replaced()) {
    const char* reason = shuffle_fallback_reason(self, groups);
    if (reason == nullptr) {
      CPUACCEL_KERNEL_CALL(channel_shuffle);
      if (self.is_contiguous(at::MemoryFormat::ChannelsLast)) {
        return shuffled_pixels(self);
      }
      auto result = empty_quantized_as(self, self.sizes(), at::MemoryFormat::Contiguous);
      shuffle(self, result, groups);
      return result;
    }
    report_fallback(kName.text, reason);
  }
  return at::native::channel_shuffle_quantized_cpu(self, groups);
}

CPUACCEL_OVERRIDES{
    CPUACCEL_OVERRIDE("aten::channel_shuffle", c10::DispatchKey::QuantizedCPU, channel_shuffle),
};

}  // namespace

}  // namespace cpuaccel::torch_ao
