// aten::channel_shuffle of quantised tensors.
#include <array>
#include <cstdint>
#include <cstring>

#include "kernels/transpose/transpose.h"
#include "ops/lists.h"
#include "ops/own_call.h"
#include "ops/quint8.h"
#include "ops/torch_kernel.h"

namespace cpuaccel::ops {
namespace {

// Torch's kernel (QNNPACK's) is the quicker one for more.
constexpr int64_t kMostGroups = 4;

const char* refuses(const at::Tensor& self, int64_t groups) {
  if (const char* why = refuses_quint8(self)) {
    return why;
  }
  const bool possible =
      self.dim() == 4 && groups > 0 && self.size(1) > 0 && self.size(1) % groups == 0;
  if (!possible) {
    return "arguments for torch to refuse";
  }
  const bool last = self.is_contiguous(at::MemoryFormat::ChannelsLast);
  return last && groups > kMostGroups ? "more groups than the kernel interleaves" : nullptr;
}

// Channel c of group g becomes channel c * groups + g.
void shuffle(const at::Tensor& src, const at::Tensor& dst, int64_t groups) {
  const int64_t channels = src.size(1);
  const int64_t columns = channels / groups;
  const int64_t pixels = src.size(2) * src.size(3);
  if (src.is_contiguous(at::MemoryFormat::ChannelsLast)) {
    kernels::transpose_bytes({.B = src.size(0) * pixels,
                              .src_batch = channels,
                              .dst_batch = channels,
                              .M = groups,
                              .src_stride = columns,
                              .K = columns,
                              .dst_stride = groups},
                             bytes(src), mutable_bytes(dst));
    return;
  }
  const uint8_t* from = bytes(src);
  uint8_t* to = mutable_bytes(dst);
  for (int64_t n = 0; n < src.size(0); ++n) {
    for (int64_t c = 0; c < channels; ++c) {
      const int64_t place = n * channels + c % columns * groups + c / columns;
      std::memcpy(to + place * pixels, from, static_cast<size_t>(pixels));
      from += pixels;
    }
  }
}

// Where one order of bytes is both layouts, torch's result has the strides of channels_last.
at::MemoryFormat result_format(const at::Tensor& src, at::MemoryFormat format) {
  const int64_t pixels = src.size(2) * src.size(3);
  const bool both = src.size(1) == 1 || pixels == 1 || src.numel() == 0;
  return both ? at::MemoryFormat::ChannelsLast : format;
}

template <OpName kName>
at::Tensor channel_shuffle(const at::Tensor& self, int64_t groups) {
  if (x86_engine()) {
    const char* why = refuses(self, groups);
    if (why == nullptr) {
      const auto format = self.suggest_memory_format();
      const at::Tensor src = self.contiguous(format);
      CPUACCEL_OWN_CALL(channel_shuffle);
      auto result = empty_quantized_as(src, src.sizes(), result_format(src, format));
      if (src.numel() > 0) {
        shuffle(src, result, groups);
      }
      return result;
    }
    count_refusal(kName.text, why);
  }
  return call_torch(kName.text, self, groups).toTensor();
}

constexpr std::array kOverrides{
    CPUACCEL_OVERRIDE("aten::channel_shuffle", c10::DispatchKey::QuantizedCPU, channel_shuffle),
};

}  // namespace

std::span<const Override> channel_shuffle_overrides() { return kOverrides; }

}  // namespace cpuaccel::ops
