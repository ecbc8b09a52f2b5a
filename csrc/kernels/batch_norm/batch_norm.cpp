#include "kernels/batch_norm/batch_norm.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>

#include "base/parallel.h"

namespace cpuaccel::kernels {
namespace {

constexpr std::array kRows{
#define CPUACCEL_KERNEL(name) CPUACCEL_ROW(KernelRow<BatchNormFunction>, name, batch_norm_##name)
#include "kernels/batch_norm/kernels.inc"
#undef CPUACCEL_KERNEL
};

constexpr int64_t kGrain = 32768;  // elements, some microseconds of work

template <typename T, typename Kernel>
void in_parallel(Kernel kernel, const BatchNormNumbers& numbers, const BatchNormRows<T>& rows) {
  const int64_t grain = std::max<int64_t>(1, kGrain / std::max<int64_t>(numbers.columns, 1));
  parallel_for(0, rows.rows, grain, [&](int64_t begin, int64_t end) {
    kernel(numbers, {rows.src + begin * rows.src_stride, rows.dst + begin * rows.dst_stride,
                     end - begin, rows.src_stride, rows.dst_stride});
  });
}

}  // namespace

std::span<const KernelRow<BatchNormFunction>> batch_norm_kernels() { return kRows; }

std::vector<float> arranged_for_pairs(std::span<const float> numbers, int64_t lanes) {
  const auto step = static_cast<size_t>(2 * lanes);
  std::vector<float> result((numbers.size() + step - 1) / step * step);
  for (size_t i = 0; i < numbers.size(); ++i) {
    const size_t within = i % step;
    result[i - within + within / 2 + within % 2 * (step / 2)] = numbers[i];
  }
  return result;
}

BatchNorm::BatchNorm(std::span<const float> scale, std::span<const float> shift, float lowest,
                     bool bf16)
    : kernels_(first_usable(batch_norm_kernels()).function()),
      columns_(static_cast<int64_t>(scale.size())),
      lowest_(lowest) {
  if (scale.size() != shift.size()) {
    throw std::invalid_argument("batch_norm: scale has " + std::to_string(scale.size()) +
                                " numbers, shift " + std::to_string(shift.size()));
  }
  const auto kept = [&](std::span<const float> numbers) {
    std::vector<float> result(numbers.begin(), numbers.end());
    // Rounding to bf16 adds to a NaN's bits, which may overflow for other NaNs than this one.
    std::replace_if(
        result.begin(), result.end(), [](float number) { return std::isnan(number); },
        std::numeric_limits<float>::quiet_NaN());
    return bf16 ? arranged_for_pairs(result, kernels_.lanes) : result;
  };
  scale_ = kept(scale);
  shift_ = kept(shift);
}

BatchNormNumbers BatchNorm::numbers() const {
  return {columns_, scale_.data(), shift_.data(), lowest_};
}

void BatchNorm::run(const BatchNormRows<float>& rows) const {
  in_parallel(kernels_.f32, numbers(), rows);
}

void BatchNorm::run(const BatchNormRows<uint16_t>& rows) const {
  in_parallel(kernels_.bf16, numbers(), rows);
}

}  // namespace cpuaccel::kernels
