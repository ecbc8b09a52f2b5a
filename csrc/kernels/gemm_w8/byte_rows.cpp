#include "kernels/gemm_w8/byte_rows.h"

#include <algorithm>
#include <cstddef>
#include <limits>

#include "base/scratch.h"
#include "kernels/gemm/half.h"
#include "kernels/gemm/pieces.h"
#include "kernels/qgemm/kernels.h"
#include "kernels/read_ahead.h"
#include "kernels/round_up.h"
#include "kernels/three_bytes.h"

namespace cpuaccel::kernels {
namespace {

// With more, the products of three rows of bytes for each take longer than reading the weights.
constexpr int64_t kMostRows = 2;
// Three rows take longer by a panel than one, so prefetching for one row comes too late. Zen 4,
// twelve layers of Qwen2.5-0.5B and their scores, at 2, 4, 6, 8 and 12 KiB: 15.5, 12.6, 11.5, 11.9
// and 12.1 ms.
constexpr int64_t kTimesAhead = 3;
// Multiply-adds of bytes per thread; about 10 us of work.
constexpr int64_t kThreadWork = 1 << 22;

// Says whether the row that packed the weights may run, and is one of VNNI.
bool multiplies_bytes(const QgemmWeights& weights) {
  return std::ranges::any_of(qgemm_kernels(), [&](const auto& row) {
    return row.function == weights.row && isa_usable(row.isa) &&
           (row.isa == Isa::avx512_vnni || row.isa == Isa::avx_vnni);
  });
}

// Row m of src as f32: where it lies, or converted into the buffer.
const float* row_of_floats(const GemmW8Call& call, int64_t m, float* buffer) {
  const auto* from =
      static_cast<const std::byte*>(call.src) + m * call.src_stride * data_type_size(call.src_type);
  return elements_as_floats(from, call.src_type, call.weights->K, buffer);
}

class Product {
 public:
  Product(const GemmW8Call& call, const GemmW8Kernels& kernels)
      : call_(call),
        kernels_(kernels),
        integers_(call.weights->row()),
        runs_(qgemm_runs(integers_, call.weights->K)),
        panel_bytes_(runs_ * integers_.run * integers_.nr) {}

  // Packs the rows of src, and returns whether they are rows of three bytes.
  bool pack() {
    const int64_t K = call_.weights->K, rows = call_.M * kThreeBytes;
    const int64_t row_bytes = runs_ * integers_.run * integers_.row_element;
    const int64_t packed_bytes = round_up(integers_.mr * row_bytes, 64);
    auto* memory = static_cast<std::byte*>(scratch(
        ScratchSlot::gemm_a, static_cast<size_t>(packed_bytes + K * int64_t{4} + rows * K)));
    auto* buffer = reinterpret_cast<float*>(memory + packed_bytes);
    auto* bytes = reinterpret_cast<uint8_t*>(buffer + K);
    for (int64_t m = 0; m < call_.M; ++m) {
      const auto step =
          three_bytes(row_of_floats(call_, m, buffer), K, bytes + m * kThreeBytes * K);
      if (!step.has_value()) {
        return false;
      }
      steps_[m] = *step;
    }
    rows_ = reinterpret_cast<int8_t*>(memory);
    integers_.rows({bytes, K, rows, K, static_cast<uint8_t>(integers_.row_offset), rows_});
    return true;
  }

  void run() const {
    const int64_t panels = divide_up(call_.weights->N, integers_.nr);
    const int64_t work = 4 * integers_.nr * (call_.weights->K + 1);
    for_each_piece(panels, kThreadWork / work + 1, [&](int64_t panel) { multiply(panel, panels); });
  }

 private:
  void multiply(int64_t panel, int64_t panels) const {
    alignas(64) int32_t sums[kQgemmLargestTile];
    alignas(64) float floats[kQgemmLargestTile / kThreeBytes];
    const int64_t n0 = panel * integers_.nr, ahead = kTimesAhead * bytes_ahead_of_panels();
    QgemmTile tile;
    tile.rows = rows_;
    tile.panel = call_.weights->panel(panel);
    tile.runs = runs_;
    tile.m = call_.M * kThreeBytes;
    tile.n = std::min(integers_.nr, call_.weights->N - n0);
    tile.sums = sums;
    if (ahead > 0 || panel + 1 < panels) {
      tile.next = tile.panel + (ahead > 0 ? ahead : panel_bytes_);
      tile.next_bytes = panel_bytes_;
    }
    integers_.tile(tile);
    kernels_.add_bytes({sums, call_.weights->column_sums + n0, integers_.row_offset, integers_.nr,
                        call_.M, tile.n, steps_, floats});
    GemmW8Results results;
    results.scales = call_.scales + n0;
    results.bias = call_.bias != nullptr ? call_.bias + n0 : nullptr;
    results.count = tile.n;
    results.type = call_.dst_type;
    for (int64_t m = 0; m < call_.M; ++m) {
      results.sums = floats + m * integers_.nr;
      results.dst = static_cast<std::byte*>(call_.dst) +
                    (m * call_.weights->N + n0) * data_type_size(call_.dst_type);
      kernels_.finish(results);
    }
  }

  const GemmW8Call& call_;
  const GemmW8Kernels& kernels_;
  const QgemmKernels& integers_;
  const int64_t runs_, panel_bytes_;
  int8_t* rows_ = nullptr;
  float steps_[kMostRows] = {};
};

}  // namespace

bool gemm_w8_by_bytes(const GemmW8Call& call, const GemmW8Kernels& kernels) {
  const QgemmWeights& weights = *call.weights;
  if (call.M > kMostRows || call.M * kThreeBytes > weights.row().mr || weights.K == 0 ||
      weights.magnitude > std::numeric_limits<int32_t>::max() || !multiplies_bytes(weights)) {
    return false;
  }
  Product product(call, kernels);
  if (!product.pack()) {
    return false;
  }
  product.run();
  return true;
}

}  // namespace cpuaccel::kernels
