#include "kernels/quantize_by_row/quantize_by_row.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <mutex>

#include "base/parallel.h"
#include "kernels/gemm/half.h"

namespace cpuaccel::kernels {
namespace {

constexpr std::array kRows{
#define CPUACCEL_KERNEL(name) \
  CPUACCEL_ROW(KernelRow<QuantizeByRowFunction>, name, quantize_by_row_##name)
#include "kernels/quantize_by_row/kernels.inc"
#undef CPUACCEL_KERNEL
};

// Elements. Below that, waking a thread costs more than the pass.
constexpr int64_t kGrain = 16384;

// The zero points of int8 lie within it. The ISAs' loops work with 16 bits.
constexpr int32_t kMostZeroPoint = 1 << 14;

struct Chosen {
  float scale;
  int32_t zero_point;
};

float rounded_to(DataType type, float value) {
  switch (type) {
    case DataType::bf16:
      return bf16_to_float(float_to_bf16(value));
    case DataType::f16:
      return f16_to_float(float_to_f16(value));
    default:
      return value;
  }
}

// The formulas of the header.
Chosen choose(const QuantizeByRow& call, const RowRange& range) {
  if (!range.finite) {
    return {std::numeric_limits<float>::quiet_NaN(), 0};
  }
  const auto steps = static_cast<float>(call.high - call.low);
  if (call.symmetric) {
    const float largest = std::max(-range.least, range.most);
    return {std::max(rounded_to(call.type, largest / (steps / 2.0f)), call.smallest_scale), 0};
  }
  const float width = rounded_to(call.type, range.most - range.least);
  const float step =
      std::isfinite(width) ? width / steps : range.most / steps - range.least / steps;
  const float scale = std::max(rounded_to(call.type, step), call.smallest_scale);
  const auto low = static_cast<float>(call.low), high = static_cast<float>(call.high);
  const float zero_point = low - std::nearbyint(rounded_to(call.type, range.least / scale));
  return {scale, static_cast<int32_t>(std::clamp(zero_point, low, high))};
}

bool has_nan(const void* src, DataType type, int64_t K) {
  for (int64_t k = 0; k < K; ++k) {
    if (std::isnan(element_to_float(src, type, k))) {
      return true;
    }
  }
  return false;
}

class Rows {
 public:
  Rows(const QuantizeByRow& call, const QuantizeByRowKernels& kernels)
      : call_(call), kernels_(kernels) {}

  void run() const {
    const int64_t grain = kGrain / (call_.K + 1) + 1;
    Chosen common{};
    if (call_.mode == RowScales::of_all_rows) {
      common = choose(call_, range_of_all(grain));
    }
    parallel_for(0, call_.M, grain, [&](int64_t begin, int64_t end) {
      for (int64_t m = begin; m < end; ++m) {
        quantize(m, call_.mode == RowScales::of_all_rows   ? common
                    : call_.mode == RowScales::of_each_row ? choose(call_, range(m))
                                                           : given(m));
      }
    });
  }

 private:
  const void* row(int64_t m) const {
    return static_cast<const std::byte*>(call_.src) +
           m * call_.row_stride * data_type_size(call_.type);
  }
  RowRange range(int64_t m) const { return kernels_.range(row(m), call_.type, call_.K); }

  RowRange range_of_all(int64_t grain) const {
    RowRange all;
    std::mutex mutex;
    parallel_for(0, call_.M, grain, [&](int64_t begin, int64_t end) {
      for (int64_t m = begin; m < end; ++m) {
        const RowRange one = range(m);
        const std::scoped_lock lock(mutex);
        all.least = std::min(all.least, one.least);
        all.most = std::max(all.most, one.most);
        all.finite = all.finite && one.finite;
      }
    });
    return all;
  }

  Chosen given(int64_t m) const {
    const int64_t at = call_.given == 1 ? 0 : m;
    const int32_t zero_point = call_.given_zero_points != nullptr ? call_.given_zero_points[at] : 0;
    if (!range(m).finite && has_nan(row(m), call_.type, call_.K)) {
      return {std::numeric_limits<float>::quiet_NaN(), 0};
    }
    return {call_.given_scales[at], zero_point};
  }

  void quantize(int64_t m, const Chosen& chosen) const {
    int8_t* dst = call_.dst + m * call_.K;
    call_.scales[m] = chosen.scale;
    call_.zero_points[m] = chosen.zero_point;
    if (std::isnan(chosen.scale)) {
      std::fill_n(dst, call_.K, int8_t{0});
      return;
    }
    const bool fits = chosen.zero_point >= -kMostZeroPoint && chosen.zero_point <= kMostZeroPoint;
    const auto quantize = fits ? kernels_.quantize : quantize_by_row_ref().quantize;
    quantize(row(m), call_.type, dst, call_.K,
             {.inverse_scale = 1.0f / chosen.scale,
              .zero_point = static_cast<float>(chosen.zero_point),
              .low = static_cast<float>(call_.low),
              .high = static_cast<float>(call_.high)});
  }

  const QuantizeByRow& call_;
  const QuantizeByRowKernels& kernels_;
};

}  // namespace

std::span<const KernelRow<QuantizeByRowFunction>> quantize_by_row_kernels() { return kRows; }

void quantize_by_row(const QuantizeByRow& call, QuantizeByRowFunction* row) {
  Rows(call, row()).run();
}

void quantize_by_row(const QuantizeByRow& call) {
  quantize_by_row(call, first_usable(quantize_by_row_kernels()).function);
}

}  // namespace cpuaccel::kernels
