#include "kernels/gemm_wq/few_rows.h"

#include <algorithm>
#include <cstddef>

#include "base/scratch.h"
#include "kernels/gemm/half.h"
#include "kernels/gemm/pieces.h"
#include "kernels/round_up.h"

namespace cpuaccel::kernels {
namespace {

// Multiply-adds per thread; about 10 us of work.
constexpr int64_t kThreadWork = 1 << 20;

// The number of rows that a tile's function is made for.
int64_t width_of(int64_t rows) { return rows <= 2 ? rows : round_up(rows, 2); }

// The rows as WqTile reads them, with the sums of their groups.
class PackedRows {
 public:
  PackedRows(const GemmWqCall& call, const GemmWqKernels& kernels)
      : call_(call),
        format_(call.weights->format()),
        groups_(call.weights->layout().groups),
        padded_(round_up(format_.group, format_.run())),
        width_(width_of(call.M)),
        places_(format_.bits == 4 ? kernels.places4 : kernels.places8) {
    const int64_t sums = groups_ * width_;
    const auto count = static_cast<size_t>(sums * (padded_ + 1) + call.weights->K());
    values_ = static_cast<float*>(scratch(ScratchSlot::gemm_a, count * sizeof(float)));
    sums_ = values_ + sums * padded_;
    row_ = sums_ + sums;
    std::fill(values_, row_, 0.0f);
    for (int64_t m = 0; m < call.M; ++m) {
      pack(m);
    }
  }

  WqTile by_panel(const std::byte* panel, float* sums) const {
    return {.rows = values_,
            .row_sums = sums_,
            .width = width_,
            .panel = panel,
            .format = &format_,
            .layout = &call_.weights->layout(),
            .sums = sums};
  }

 private:
  void pack(int64_t m) const {
    const float* from = row_of_floats(call_, m, row_);
    for (int64_t g = 0; g < groups_; ++g, from += format_.group) {
      float* to = values_ + g * padded_ * width_ + m;
      float sums[4] = {};
      for (int64_t k = 0; k < format_.group; ++k) {
        to[k * width_] = from[k] * places_[static_cast<size_t>(k % 4)];
        sums[k % 4] += from[k];
      }
      sums_[g * width_ + m] = (sums[0] + sums[1]) + (sums[2] + sums[3]);
    }
  }

  const GemmWqCall& call_;
  const WqFormat& format_;
  const int64_t groups_, padded_, width_;
  const std::array<float, 4> places_;
  float *values_, *sums_, *row_;
};

}  // namespace

const float* row_of_floats(const GemmWqCall& call, int64_t m, float* buffer) {
  const auto* from =
      static_cast<const std::byte*>(call.src) + m * call.src_stride * data_type_size(call.src_type);
  return elements_as_floats(from, call.src_type, call.weights->K(), buffer);
}

void store_rows(const GemmWqCall& call, float* sums, int64_t m0, int64_t rows, int64_t n0) {
  const int64_t count = std::min(kWqColumns, call.weights->N() - n0);
  for (int64_t m = m0; m < m0 + rows; ++m, sums += kWqColumns) {
    for (int64_t j = 0; call.bias != nullptr && j < count; ++j) {
      sums[j] += call.bias[n0 + j];
    }
    write_columns(call.dst, sums, m, n0, count);
  }
}

void few_rows(const GemmWqCall& call, const GemmWqKernels& kernels) {
  const WqWeights& weights = *call.weights;
  const PackedRows rows(call, kernels);
  const int64_t work = std::max<int64_t>(call.M, 4) * kWqColumns * (weights.K() + 1);
  for_each_piece(weights.panels(), kThreadWork / work + 1, [&](int64_t panel) {
    alignas(64) float sums[kFewRows * kWqColumns] = {};  // no group writes them if K is 0
    kernels.tile(rows.by_panel(weights.panel(panel), sums));
    store_rows(call, sums, 0, call.M, panel * kWqColumns);
  });
}

}  // namespace cpuaccel::kernels
