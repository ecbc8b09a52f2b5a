#include "ops/intx_packing.h"

#include <algorithm>
#include <atomic>
#include <vector>

#include "base/parallel.h"
#include "ops/data_type.h"

namespace cpuaccel::ops {
namespace {

bool has_reals(const IntxCodes& from) {
  return from.zero_point && from.zero_point->is_floating_point();
}

// Packs a panel at a time, so that no copy of the whole weight is made.
class Packing {
 public:
  Packing(const IntxCodes& from, kernels::WqWeights& weights)
      : bits_(from.bits),
        groups_(from.scale.size(1)),
        zeros_kind_(weights.format().zeros),
        codes_(from.codes.detach().contiguous()),
        scales_(from.scale.detach().to(at::kFloat).contiguous()),
        zeros_(zeros_kind_ == kernels::WqZeros::none
                   ? at::Tensor()
                   : from.zero_point->detach().to(at::kFloat).contiguous()),
        weights_(weights) {}

  bool run() {
    parallel_for(0, weights_.panels(), 1, [&](int64_t begin, int64_t end) {
      Panel panel(static_cast<size_t>(kernels::kWqColumns * weights_.K()),
                  static_cast<size_t>(kernels::kWqColumns * groups_));
      for (int64_t index = begin; index < end; ++index) {
        fill(panel, index * kernels::kWqColumns);
        weights_.set_panel(index, {.codes = panel.codes.data(),
                                   .code_stride = weights_.K(),
                                   .scales = panel.scales.data(),
                                   .integers = panel.integers.data(),
                                   .reals = panel.reals.data(),
                                   .scale_stride = groups_});
      }
    });
    return fits_.load();
  }

 private:
  struct Panel {
    std::vector<int8_t> codes, integers;
    std::vector<float> scales, reals;
    Panel(size_t count, size_t of_groups)
        : codes(count), integers(of_groups), scales(of_groups), reals(of_groups) {}
  };

  int8_t in_range(float code) {
    const float low = bits_ == 4 ? -8.0f : -128.0f;
    if (!(code >= low && code <= -low - 1.0f)) {
      fits_.store(false);
      return 0;
    }
    // WqWeights counts codes of 4 bits from 0.
    return static_cast<int8_t>(code + (bits_ == 4 ? 8.0f : 0.0f));
  }

  void fill(Panel& panel, int64_t first) {
    const int64_t K = weights_.K(), count = std::min(kernels::kWqColumns, weights_.N() - first);
    const auto* codes = codes_.const_data_ptr<int8_t>() + first * K;
    std::transform(codes, codes + count * K, panel.codes.begin(),
                   [&](int8_t code) { return in_range(code); });
    const auto* scales = scales_.const_data_ptr<float>() + first * groups_;
    std::copy_n(scales, count * groups_, panel.scales.begin());
    if (!zeros_.defined()) {
      return;
    }
    const auto* zeros = zeros_.const_data_ptr<float>() + first * groups_;
    for (int64_t i = 0; i < count * groups_; ++i) {
      const auto at = static_cast<size_t>(i);
      if (zeros_kind_ == kernels::WqZeros::reals) {
        panel.reals[at] = -zeros[i] * scales[i];
      } else {
        panel.integers[at] = in_range(zeros[i]);
      }
    }
  }

  const int64_t bits_, groups_;
  const kernels::WqZeros zeros_kind_;
  const at::Tensor codes_, scales_, zeros_;  // an undefined zeros_ means none
  kernels::WqWeights& weights_;
  std::atomic<bool> fits_{true};
};

}  // namespace

kernels::WqFormat packed_format(const IntxCodes& from) {
  kernels::WqFormat format;
  format.bits = from.bits;
  format.group = from.group();
  format.scales = data_type(from.scale.scalar_type());
  if (has_reals(from)) {
    // -zero * scale, of which a type of 16 bits would lose digits.
    format.scales = DataType::f32;
    format.zeros = kernels::WqZeros::reals;
  } else if (from.zero_point) {
    format.zeros = kernels::WqZeros::integers;
  }
  return format;
}

bool pack_codes(const IntxCodes& from, kernels::WqWeights& weights) {
  return Packing(from, weights).run();
}

}  // namespace cpuaccel::ops
