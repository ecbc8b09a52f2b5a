// cpuaccel::shuffle_channels: fuses a concatenation, a channel shuffle, one chunk of the result and
// an elementwise function, which ShuffleNet runs as eight ops.
//
//   x = cat(qxs, 1); N x C x H x W
//   shuffled[:, c * groups + g] = x[:, g * (C / groups) + c]
//   result = table[shuffled.chunk(chunks, 1)[chunk]], quantized by (scale, zero_point); without a
//            table the values as they are, quantized as the first of qxs
//
// The result is channels last if the operands are.

#include <ATen/Functions.h>
#include <c10/util/Exception.h>
#include <torch/library.h>

#include <optional>
#include <utility>
#include <vector>

#include "kernels/channel_shuffle/channel_shuffle.h"
#include "torch_ao/names.h"
#include "torch_ao/pixels.h"
#include "torch_ao/quantized_checks.h"
#include "torch_ao/quantized_table.h"
#include "torch_ao/quint8.h"

namespace cpuaccel::torch_ao {
namespace {

constexpr auto kShuffleChannels = "cpuaccel::shuffle_channels";

struct Shuffle {
  int64_t groups;
  int64_t chunks;
  int64_t chunk;
};

struct Plan {
  std::vector<kernels::ChannelShuffleSource> src;  // one per group
  int64_t columns = 0;                             // channels of each group that go into the result
};

bool same_images(const at::Tensor& a, const at::Tensor& b) {
  const auto of_a = per_tensor(a), of_b = per_tensor(b);
  return a.dim() == b.dim() && a.size(0) == b.size(0) && a.size(2) == b.size(2) &&
         a.size(3) == b.size(3) && of_a.scale == of_b.scale && of_a.zero_point == of_b.zero_point;
}

// The sources to interleave, one for each group; nullopt if the call needs more than that.
std::optional<Plan> plan(at::TensorList qxs, const Shuffle& shuffle) {
  const auto operands = static_cast<int64_t>(qxs.size());
  const at::Tensor& first = qxs[0];
  const auto pitch = pixel_pitch(first);
  const int64_t C = operands * (pitch ? first.size(1) : 0);
  const int64_t parts = shuffle.groups * shuffle.chunks;
  if (!pitch || (operands != 1 && operands != shuffle.groups) || C % parts != 0) {
    return std::nullopt;
  }
  Plan result;
  result.columns = C / parts;
  const int64_t start = shuffle.chunk * result.columns;
  for (const auto& qx : qxs) {
    const auto own_pitch = pixel_pitch(qx);
    if (!own_pitch || !same_images(first, qx) || qx.size(1) != first.size(1)) {
      return std::nullopt;
    }
    result.src.push_back({bytes(qx) + start, *own_pitch});
  }
  for (int64_t g = operands; g < shuffle.groups; ++g) {
    result.src.push_back({result.src[0].data + g * (C / shuffle.groups), *pitch});
  }
  return result;
}

// Any shapes, strides and quantizers, by torch's ops.
at::Tensor run_apart(at::TensorList qxs, const Shuffle& shuffle) {
  const at::Tensor x = qxs.size() == 1 ? qxs[0] : at::cat(qxs, 1);
  TORCH_CHECK(x.dim() >= 2, kShuffleChannels,
              ": expected qxs to have at least 2 dimensions, but got shape ", x.sizes());
  TORCH_CHECK(x.size(1) % shuffle.groups == 0, kShuffleChannels, ": expected groups, ",
              shuffle.groups, ", to divide the number of channels, ", x.size(1));
  std::vector<int64_t> apart{x.size(0), shuffle.groups, x.size(1) / shuffle.groups};
  apart.insert(apart.end(), x.sizes().begin() + 2, x.sizes().end());
  const auto parts = x.reshape(apart).transpose(1, 2).reshape(x.sizes()).chunk(shuffle.chunks, 1);
  TORCH_CHECK(shuffle.chunk < static_cast<int64_t>(parts.size()), kShuffleChannels,
              ": expected chunk to be one of ", parts.size(), ", but got ", shuffle.chunk);
  return parts[static_cast<size_t>(shuffle.chunk)];
}

at::Tensor shuffle_channels(at::TensorList qxs, int64_t groups, int64_t chunks, int64_t chunk,
                            const std::optional<at::Tensor>& table, double scale,
                            int64_t zero_point) {
  TORCH_CHECK(!qxs.empty(), kShuffleChannels,
              ": expected qxs to have at least one tensor, but got none");
  TORCH_CHECK(groups >= 1 && chunks >= 1 && chunk >= 0 && chunk < chunks, kShuffleChannels,
              ": expected groups and chunks of at least 1 and chunk below chunks, but got ", groups,
              ", ", chunks, " and ", chunk);
  for (const auto& qx : qxs) {
    check_quint8(kShuffleChannels, "qxs", qx);
  }
  if (table) {
    check_table(kShuffleChannels, *table);
    check_output_quantizer(kShuffleChannels, scale, zero_point, "");
  }
  const Shuffle shuffle{groups, chunks, chunk};
  const auto direct = plan(qxs, shuffle);
  if (!direct) {
    const at::Tensor part = run_apart(qxs, shuffle);
    return table ? quantized_table(part, *table, scale, zero_point) : part.contiguous();
  }
  CPUACCEL_KERNEL_CALL(channel_shuffle);
  const auto& first = qxs[0];
  at::Tensor dst = empty_quint8(
      {first.size(0), direct->columns * groups, first.size(2), first.size(3)},
      table ? PerTensor{scale, zero_point} : per_tensor(first), at::MemoryFormat::ChannelsLast);
  kernels::channel_shuffle_u8(direct->src, mutable_bytes(dst),
                              first.size(0) * first.size(2) * first.size(3), direct->columns,
                              table ? table->const_data_ptr<uint8_t>() : nullptr);
  return dst;
}

TORCH_LIBRARY_FRAGMENT(cpuaccel, library) {
  library.def(
      "shuffle_channels(Tensor[] qxs, int groups, int chunks, int chunk, Tensor? table, "
      "float scale, int zero_point) -> Tensor");
}

TORCH_LIBRARY_IMPL(cpuaccel, QuantizedCPU, library) {
  library.impl("shuffle_channels", TORCH_FN(shuffle_channels));
}

}  // namespace
}  // namespace cpuaccel::torch_ao
