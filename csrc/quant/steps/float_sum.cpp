#include "quant/steps/float_sum.h"

#include <algorithm>
#include <array>
#include <limits>

#include "base/parallel.h"
#include "kernels/dequantize/dequantize.h"
#include "kernels/kernel_list.h"
#include "kernels/quantize/quantize.h"

namespace cpuaccel::quant {
namespace {

constexpr int64_t kPiece = 2048;  // floats, which stay in the L1 cache

}  // namespace

FloatSum float_sum_of(const QuantCall& call) {
  return {.other_scale = call.sum_scale,
          .other_zero_point = call.sum_zero_point,
          .least = call.post == PostOp::sum_relu ? 0.0f : -std::numeric_limits<float>::infinity(),
          .scale = call.dst_scale,
          .zero_point = call.dst_zero_point};
}

void add_in_floats(const FloatSum& sum, const float* real, const uint8_t* other, uint8_t* dst,
                   int64_t count) {
  auto* const dequantize = kernels::first_usable(kernels::dequantize_kernels()).function;
  auto* const quantize = kernels::first_usable(kernels::quantize_kernels()).function;
  const auto by = kernels::quantize_by(1.0f / sum.scale, sum.zero_point);
  parallel_for(0, count, 8 * kPiece, [&](int64_t begin, int64_t end) {
    std::array<float, kPiece> values;
    for (int64_t i = begin; i < end; i += kPiece) {
      const int64_t here = std::min(kPiece, end - i);
      dequantize(other + i, values.data(), here, sum.other_scale, sum.other_zero_point, 0);
      for (int64_t j = 0; j < here; ++j) {
        auto& value = values[static_cast<size_t>(j)];
        value = std::max(value + real[i + j], sum.least);
      }
      quantize(values.data(), dst + i, here, by);
    }
  });
}

}  // namespace cpuaccel::quant
