#include <ATen/EmptyTensor.h>

#include <algorithm>

#include "ops/cpuaccel_convolution.h"

namespace cpuaccel::ops {
namespace {

// The most floats of gathered depths at a time.
constexpr int64_t kMostFloats = 16 << 20;

// Depths are gathered by a copy each, of about a microsecond. By CPU time on Zen 4, torch's kernels
// are 1.3 to 2 times as fast with one tap, and 1.2 to 3 times below this many multiply-adds. Above,
// cpuaccel's are 1.0 to 3 times as fast.
constexpr double kFewMultiplyAdds = 1 << 19;

// Floats of the weights times those of the input. A call below has few multiply-adds, unless its
// padding is far larger than its volume.
constexpr int64_t kTiny = 1 << 12;

bool worth_copies(const at::Tensor& input, const at::Tensor& weight, int64_t depths) {
  const at::IntArrayRef image = input.sizes(), kernel = weight.sizes();
  const auto planes = static_cast<double>(depths * image[0]);
  const auto area = static_cast<double>(image[3] * image[4]);
  return cpuaccel_convolutions_only() ||
         (kernel[2] * kernel[3] * kernel[4] > 1 &&
          static_cast<double>(weight.numel()) * planes * area >= kFewMultiplyAdds);
}

bool plain(const at::Tensor& x) {
  return dense_floats(x) && x.numel() > 0 &&
         x.suggest_memory_format() != at::MemoryFormat::ChannelsLast3d;
}

struct Depths {
  int64_t size, kernel, stride, padding, dilation;

  int64_t room() const { return size + 2 * padding - dilation * (kernel - 1) - 1; }
  int64_t count() const { return room() / stride + 1; }
};

std::optional<Depths> depths_of(const at::Tensor& input, const at::Tensor& weight,
                                const ConvArguments& arguments) {
  if (input.dim() != 5 || weight.dim() != 5 || arguments.stride.size() != 3 ||
      arguments.padding.size() != 3 || arguments.dilation.size() != 3) {
    return std::nullopt;
  }
  const Depths depths{input.size(2), weight.size(2), arguments.stride[0], arguments.padding[0],
                      arguments.dilation[0]};
  constexpr int64_t kLargest = int64_t{1} << 30;  // small enough that no product above overflows
  const bool small = std::max({depths.size, depths.kernel, depths.stride, depths.padding,
                               depths.dilation}) <= kLargest;
  if (!small || depths.stride < 1 || depths.padding < 0 || depths.dilation < 1 ||
      depths.room() < 0) {
    return std::nullopt;
  }
  return depths;
}

// images[i, c, k] = input[c, the k-th depth that output depth `first` + i sees], or 0 outside.
void gather(const at::Tensor& input, const Depths& depths, int64_t first,
            const at::Tensor& images) {
  for (int64_t i = 0; i < images.size(0); ++i) {
    for (int64_t k = 0; k < depths.kernel; ++k) {
      const int64_t depth = (first + i) * depths.stride - depths.padding + k * depths.dilation;
      const at::Tensor to = images[i].select(1, k);
      if (depth >= 0 && depth < depths.size) {
        to.copy_(input.select(1, depth));
      } else {
        to.zero_();
      }
    }
  }
}

}  // namespace

std::optional<at::Tensor> cpuaccel_convolution_3d(const at::Tensor& input, const at::Tensor& weight,
                                                  const std::optional<at::Tensor>& bias,
                                                  const ConvArguments& arguments) {
  // The cheap checks come first: most calls are too small.
  if (!cpuaccel_convolutions_only() && weight.numel() * input.numel() < kTiny) {
    return std::nullopt;
  }
  const auto depths = depths_of(input, weight, arguments);
  if (!depths || !worth_copies(input, weight, depths->count()) || !plain(input) || !plain(weight)) {
    return std::nullopt;
  }
  const int64_t C = input.size(1), IH = input.size(3), IW = input.size(4);
  const int64_t seen = C * depths->kernel;
  // (c, depth) are the channels; contiguous weights need no copy.
  const at::Tensor weights = weight.contiguous().view(
      {weight.size(0), weight.size(1) * depths->kernel, weight.size(3), weight.size(4)});
  const ConvArguments plane{arguments.stride.slice(1), arguments.padding.slice(1),
                            arguments.dilation.slice(1), arguments.groups};
  const int64_t most = std::max<int64_t>(kMostFloats / (seen * IH * IW), 1);
  const int64_t together = std::min(depths->count(), most);
  // Checked with one expanded float, before memory for the images is allocated.
  const at::Tensor like = at::detail::empty_cpu({1, 1, 1, 1}, at::kFloat);
  if (!runs_plane_convolution(like.expand({together, seen, IH, IW}), weights, bias, plane)) {
    return std::nullopt;
  }
  const at::Tensor images =
      at::detail::empty_cpu({together, C, depths->kernel, IH, IW}, at::kFloat);
  at::Tensor dst;
  for (int64_t n = 0; n < input.size(0); ++n) {
    for (int64_t first = 0; first < depths->count(); first += together) {
      const int64_t count = std::min(together, depths->count() - first);
      const at::Tensor some = images.narrow(0, 0, count);
      gather(input[n], *depths, first, some);
      const auto part =
          cpuaccel_plane_convolution(some.view({count, seen, IH, IW}), weights, bias, plane);
      if (!part) {
        return std::nullopt;
      }
      if (!dst.defined()) {
        dst = at::detail::empty_cpu(
            {input.size(0), weight.size(0), depths->count(), part->size(2), part->size(3)},
            at::kFloat);
      }
      dst[n].narrow(1, first, count).copy_(part->transpose(0, 1));
    }
  }
  return dst;
}

}  // namespace cpuaccel::ops
