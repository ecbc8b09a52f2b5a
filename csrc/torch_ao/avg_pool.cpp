// Average pooling of quantized images: aten::_adaptive_avg_pool2d, aten::avg_pool2d,
// aten::mean.dim.
#include <c10/util/SmallVector.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <optional>

#include "kernels/avgpool/avgpool.h"
#include "kernels/avgpool/windows.h"
#include "torch_ao/images.h"
#include "torch_ao/names.h"
#include "torch_ao/quint8.h"
#include "torch_ao/torch_compat.h"

namespace cpuaccel::torch_ao {
namespace {

using kernels::AvgpoolHalves;
using kernels::AvgpoolRange;
using kernels::PoolWindow;
using Ranges = c10::SmallVector<AvgpoolRange, 32>;
using Divisor = std::optional<int64_t>;

const char* avg_pool_fallback_reason(const at::Tensor& x) {
  if (const char* reason = images_fallback_reason(x)) {
    return reason;
  }
  return x.size(1) == 0 || x.size(2) == 0 || x.size(3) == 0 ? reasons::kInvalidArguments : nullptr;
}

Ranges adaptive_ranges(int64_t size, int64_t count) {
  Ranges ranges(static_cast<size_t>(count));
  kernels::adaptive_ranges(size, count, ranges.data());
  return ranges;
}

// Empty if no window fits.
Ranges window_ranges(int64_t size, const PoolWindow& window, bool ceil_mode,
                     bool count_include_pad) {
  const int64_t count = std::max<int64_t>(kernels::pooled_size(size, window, ceil_mode), 0);
  Ranges ranges(static_cast<size_t>(count));
  kernels::window_ranges(size, window, count_include_pad, count, ranges.data());
  return ranges;
}

// The largest length(range) over the ranges.
template <typename Length>
int64_t longest(const Ranges& ranges, const Length& length) {
  int64_t result = 0;
  for (const auto& range : ranges) {
    result = std::max(result, length(range));
  }
  return result;
}

const char* windows_fallback_reason(const Ranges& rows, const Ranges& columns, Divisor divisor) {
  const auto inside = [](const AvgpoolRange& range) { return range.end - range.begin; };
  const auto counted = [](const AvgpoolRange& range) { return range.extent; };
  const int64_t area = longest(rows, inside) * longest(columns, inside);
  const int64_t largest =
      divisor ? std::abs(*divisor) : longest(rows, counted) * longest(columns, counted);
  return std::max(area, largest) < kernels::kAvgpoolLimit ? nullptr
                                                          : "a window of 32768 or more pixels";
}

void average(const at::Tensor& x, const Ranges& rows, const Ranges& columns, Divisor divisor,
             AvgpoolHalves halves, const at::Tensor& result) {
  if (result.numel() == 0) {
    return;
  }
  kernels::avgpool_u8({.N = x.size(0),
                       .H = x.size(2),
                       .W = x.size(3),
                       .C = x.size(1),
                       .OH = static_cast<int64_t>(rows.size()),
                       .OW = static_cast<int64_t>(columns.size()),
                       .rows = rows.data(),
                       .columns = columns.data(),
                       .divisor = divisor.value_or(0),
                       .zero_point = static_cast<int32_t>(per_tensor(x).zero_point),
                       .halves = halves},
                      bytes(x), mutable_bytes(result));
}

// The averages as a new batch of images.
at::Tensor averages(const at::Tensor& x, const Ranges& rows, const Ranges& columns, Divisor divisor,
                    AvgpoolHalves halves) {
  const auto images =
      empty_images_as(x, static_cast<int64_t>(rows.size()), static_cast<int64_t>(columns.size()));
  average(x, rows, columns, divisor, halves, images);
  return with_torch_strides(images, x);
}

template <OpName kName>
at::Tensor adaptive_avg_pool2d(const at::Tensor& self, at::IntArrayRef output_size) {
  if (engine_is_replaced()) {
    const char* reason = avg_pool_fallback_reason(self);
    if (reason == nullptr &&
        (output_size.size() != 2 || output_size[0] <= 0 || output_size[1] <= 0)) {
      reason = reasons::kInvalidArguments;
    }
    if (reason == nullptr) {
      const Ranges rows = adaptive_ranges(self.size(2), output_size[0]);
      const Ranges columns = adaptive_ranges(self.size(3), output_size[1]);
      reason = windows_fallback_reason(rows, columns, std::nullopt);
      if (reason == nullptr) {
        CPUACCEL_KERNEL_CALL(adaptive_avg_pool2d);
        return averages(self, rows, columns, std::nullopt, kernels::halves_of_means());
      }
    }
    report_fallback(kName.text, reason);
  }
  return call_torch(kName.text, self, output_size).toTensor();
}

// The value for a dimension: a list of one value is for both, an empty list means `otherwise`.
std::optional<int64_t> of_dimension(at::IntArrayRef values, size_t dimension, int64_t otherwise) {
  if (values.empty()) {
    return otherwise;
  }
  if (values.size() > 2) {
    return std::nullopt;
  }
  return values[values.size() == 1 ? 0 : dimension];
}

std::optional<PoolWindow> window_of(at::IntArrayRef kernel, at::IntArrayRef stride,
                                    at::IntArrayRef padding, size_t dimension) {
  constexpr int64_t kLargest = std::numeric_limits<int32_t>::max() / 4;
  const auto k = of_dimension(kernel, dimension, 0);
  const auto s = of_dimension(stride, dimension, k.value_or(0));
  const auto p = of_dimension(padding, dimension, -1);
  if (!k || !s || !p || *k <= 0 || *s <= 0 || *p < 0 || *p > *k / 2 ||
      std::max({*k, *s}) > kLargest) {
    return std::nullopt;
  }
  return PoolWindow{*k, *s, *p};
}

template <OpName kName>
at::Tensor avg_pool2d(const at::Tensor& self, at::IntArrayRef kernel_size, at::IntArrayRef stride,
                      at::IntArrayRef padding, bool ceil_mode, bool count_include_pad,
                      std::optional<int64_t> divisor_override) {
  if (engine_is_replaced()) {
    const char* reason = avg_pool_fallback_reason(self);
    if (reason == nullptr) {
      const auto vertical = window_of(kernel_size, stride, padding, 0);
      const auto horizontal = window_of(kernel_size, stride, padding, 1);
      reason = reasons::kInvalidArguments;
      if (vertical && horizontal && divisor_override != 0) {
        const Ranges rows = window_ranges(self.size(2), *vertical, ceil_mode, count_include_pad);
        const Ranges columns =
            window_ranges(self.size(3), *horizontal, ceil_mode, count_include_pad);
        reason = rows.empty() || columns.empty()
                     ? reasons::kInvalidArguments
                     : windows_fallback_reason(rows, columns, divisor_override);
        if (reason == nullptr) {
          CPUACCEL_KERNEL_CALL(avg_pool2d);
          return averages(self, rows, columns, divisor_override, AvgpoolHalves::even_steps);
        }
      }
    }
    report_fallback(kName.text, reason);
  }
  return call_torch(kName.text, self, kernel_size, stride, padding, ceil_mode, count_include_pad,
                    divisor_override)
      .toTensor();
}

// Whether `dim` is the height and width of a batch of images.
bool both_spatial(at::OptionalIntArrayRef dim) {
  if (!dim || dim->size() != 2) {
    return false;
  }
  const auto is = [&](size_t i, int64_t d) { return (*dim)[i] == d || (*dim)[i] == d - 4; };
  return (is(0, 2) && is(1, 3)) || (is(0, 3) && is(1, 2));
}

template <OpName kName>
at::Tensor mean_dim(const at::Tensor& self, at::OptionalIntArrayRef dim, bool keepdim,
                    std::optional<at::ScalarType> dtype) {
  if (engine_is_replaced()) {
    const char* reason = avg_pool_fallback_reason(self);
    if (reason == nullptr && (!both_spatial(dim) || dtype.has_value())) {
      reason = "not the mean over height and width";
    }
    if (reason == nullptr) {
      const Ranges rows{{0, self.size(2), self.size(2)}};
      const Ranges columns{{0, self.size(3), self.size(3)}};
      reason = windows_fallback_reason(rows, columns, std::nullopt);
      if (reason == nullptr) {
        CPUACCEL_KERNEL_CALL(mean);
        const std::array<int64_t, 4> sizes{self.size(0), self.size(1), 1, 1};
        const auto result = empty_quantized_as(self, at::IntArrayRef(sizes.data(), keepdim ? 4 : 2),
                                               at::MemoryFormat::Contiguous);
        average(self, rows, columns, std::nullopt, kernels::halves_of_means(), result);
        return result;
      }
    }
    report_fallback(kName.text, reason);
  }
  return at::native::mean_quantized_cpu(self, dim, keepdim, dtype);
}

#define ROW(name, function) CPUACCEL_OVERRIDE(name, c10::DispatchKey::QuantizedCPU, function)
CPUACCEL_OVERRIDES{
    ROW("aten::_adaptive_avg_pool2d", adaptive_avg_pool2d),
    ROW("aten::avg_pool2d", avg_pool2d),
    ROW("aten::mean.dim", mean_dim),
};
#undef ROW

}  // namespace

}  // namespace cpuaccel::torch_ao
