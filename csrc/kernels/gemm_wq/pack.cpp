#include "kernels/gemm_wq/pack.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <vector>

#include "base/parallel.h"

namespace cpuaccel::kernels {
namespace {

// Packs a panel at a time, so that no copy of the whole weight is made.
class Packing {
 public:
  Packing(const WqPlain& plain, WqWeights& weights)
      : plain_(plain),
        low_(weights.format().bits == 4 ? -8.0f : -128.0f),
        groups_(weights.layout().groups),
        zeros_(weights.format().zeros),
        weights_(weights) {}

  bool run() {
    parallel_for(0, weights_.panels(), 1, [&](int64_t begin, int64_t end) {
      Panel panel(static_cast<size_t>(kWqColumns * weights_.K()),
                  static_cast<size_t>(kWqColumns * groups_));
      for (int64_t index = begin; index < end; ++index) {
        fill(panel, index * kWqColumns);
        weights_.set_panel(index, {.codes = panel.codes.data(),
                                   .code_stride = weights_.K(),
                                   .scales = plain_.scales + index * kWqColumns * groups_,
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
    std::vector<float> reals;
    Panel(size_t count, size_t of_groups) : codes(count), integers(of_groups), reals(of_groups) {}
  };

  int8_t in_range(float code) {
    if (!(code >= low_ && code <= -low_ - 1.0f)) {
      fits_.store(false);
      return 0;
    }
    // WqWeights counts codes of 4 bits from 0.
    return static_cast<int8_t>(code + static_cast<float>(weights_.format().center()));
  }

  void fill(Panel& panel, int64_t first) {
    const int64_t K = weights_.K(), count = std::min(kWqColumns, weights_.N() - first);
    for (int64_t n = 0; n < count; ++n) {
      const int8_t* codes = plain_.codes + (first + n) * plain_.n_stride;
      for (int64_t k = 0; k < K; ++k) {
        panel.codes[static_cast<size_t>(n * K + k)] = in_range(codes[k * plain_.k_stride]);
      }
    }
    if (zeros_ == WqZeros::none) {
      return;
    }
    const float *scales = plain_.scales + first * groups_, *zeros = plain_.zeros + first * groups_;
    for (int64_t i = 0; i < count * groups_; ++i) {
      const auto at = static_cast<size_t>(i);
      if (zeros_ == WqZeros::reals) {
        panel.reals[at] = -zeros[i] * scales[i];
      } else {
        panel.integers[at] = in_range(zeros[i]);
      }
    }
  }

  const WqPlain& plain_;
  const float low_;
  const int64_t groups_;
  const WqZeros zeros_;
  WqWeights& weights_;
  std::atomic<bool> fits_{true};
};

}  // namespace

bool pack_plain(const WqPlain& plain, WqWeights& weights) { return Packing(plain, weights).run(); }

}  // namespace cpuaccel::kernels
