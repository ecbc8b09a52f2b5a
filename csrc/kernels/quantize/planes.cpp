#include <algorithm>

#include "base/parallel.h"
#include "base/scratch.h"
#include "kernels/quantize/quantize.h"
#include "kernels/transpose/transpose.h"

namespace cpuaccel::kernels {

void quantize_planes_u8(const float* src, uint8_t* dst, const QuantizePlanes& shape, float scale,
                        int32_t zero_point) {
  constexpr int64_t kBlockBytes = 8192;  // a block of pixels stays in the L1 cache
  constexpr int64_t kLeastPixels = 64;
  const auto quantize = first_usable(quantize_kernels()).function;
  const auto transpose = first_usable(transpose_kernels()).function;
  const QuantizeBy by = quantize_by(1.0f / scale, zero_point);
  const auto [images, channels, pixels] = shape;
  const int64_t most = std::max(kBlockBytes / std::max<int64_t>(channels, 1), kLeastPixels);
  const int64_t blocks = (pixels + most - 1) / most;
  parallel_for(0, images * blocks, 2, [&](int64_t begin, int64_t end) {
    auto* planes = static_cast<uint8_t*>(
        scratch(ScratchSlot::quantized_src, static_cast<size_t>(channels * most)));
    for (int64_t block = begin; block < end; ++block) {
      const int64_t image = block / blocks, first = block % blocks * most;
      const int64_t count = std::min(most, pixels - first);
      for (int64_t c = 0; c < channels; ++c) {
        quantize(src + (image * channels + c) * pixels + first, planes + c * count, count, by);
      }
      transpose({.M = channels, .src_stride = count, .K = count, .dst_stride = channels}, planes,
                dst + (image * pixels + first) * channels);
    }
  });
}

}  // namespace cpuaccel::kernels
