#include "kernels/avgpool/avgpool.h"

#include <algorithm>
#include <array>

#include "base/parallel.h"
#include "kernels/zero_point.h"

namespace cpuaccel::kernels {
namespace {

constexpr std::array kRows{
#define CPUACCEL_KERNEL(name) CPUACCEL_ROW(KernelRow<AvgpoolFunction>, name, avgpool_##name)
#include "kernels/avgpool/kernels.inc"
#undef CPUACCEL_KERNEL
};

constexpr int64_t kGrainBytes = 131072;  // read: a few microseconds, as long as waking a thread
constexpr int64_t kFewPixels = 8;        // of dst; up to this many, threads also share channels
constexpr int64_t kSlice = 256;          // channels

AvgpoolDivision division_for(int64_t pixels, int64_t divisor, int64_t zero_point,
                             AvgpoolHalves halves) {
  AvgpoolDivision division;
  if (divisor < 2 || divisor > 127 || pixels > divisor) {
    return division;
  }
  // 2^shift < divisor <= 2^(shift + 1), so that the multiplier has 16 bits.
  while ((int64_t{2} << division.shift) < divisor) {
    ++division.shift;
  }
  const int64_t power = int64_t{65536} << division.shift;
  division.possible = true;
  division.halves = divisor % 2 == 0;
  division.odd = halves == AvgpoolHalves::even_steps ? static_cast<int>(zero_point % 2) : 0;
  // Padding counts as zero_point.
  division.addend = static_cast<uint16_t>((divisor - pixels) * zero_point + divisor / 2);
  division.multiplier = static_cast<uint16_t>((power + divisor - 1) / divisor);
  division.divisor = static_cast<uint16_t>(divisor);
  return division;
}

}  // namespace

AvgpoolHalves halves_of_means() {
  return zero_point_added() == ZeroPointAdded::after_rounding ? AvgpoolHalves::even_steps
                                                              : AvgpoolHalves::even_byte;
}

namespace {

// Computes one result at a time and reuses the window of its neighbors.
class Pixels {
 public:
  Pixels(const AvgpoolCall& call, const uint8_t* src, uint8_t* dst)
      : call_(call),
        function_(first_usable(avgpool_kernels()).function),
        window_(1, 1, 1, call.zero_point, call.halves),
        src_(src),
        dst_(dst) {}

  void average(int64_t n, int64_t oh, int64_t ow, int64_t c, int64_t channels) {
    const auto& rows = call_.rows[oh];
    const auto& columns = call_.columns[ow];
    uint8_t* dst = dst_ + ((n * call_.OH + oh) * call_.OW + ow) * call_.C + c;
    const int64_t height = rows.end - rows.begin;
    const int64_t width = columns.end - columns.begin;
    if (height <= 0 || width <= 0) {
      std::fill_n(dst, channels, static_cast<uint8_t>(call_.zero_point));
      return;
    }
    const int64_t divisor = call_.divisor != 0 ? call_.divisor : rows.extent * columns.extent;
    if (height != window_.rows || width != window_.columns || divisor != window_.divisor) {
      window_ = AvgpoolWindow(height, width, divisor, call_.zero_point, call_.halves);
    }
    window_.row_stride = call_.W * call_.C;
    window_.column_stride = call_.C;
    const int64_t pixel = (n * call_.H + rows.begin) * call_.W + columns.begin;
    function_(window_, src_ + pixel * call_.C + c, dst, channels);
  }

 private:
  const AvgpoolCall& call_;
  AvgpoolFunction* function_;
  AvgpoolWindow window_;
  const uint8_t* src_;
  uint8_t* dst_;
};

}  // namespace

AvgpoolWindow::AvgpoolWindow(int64_t window_rows, int64_t window_columns, int64_t divisor_,
                             int32_t zero_point, AvgpoolHalves halves)
    : rows(window_rows),
      columns(window_columns),
      divisor(divisor_),
      division(division_for(window_rows * window_columns, divisor_, zero_point, halves)) {
  const int64_t pixels = rows * columns;
  const bool from_zero_point = halves == AvgpoolHalves::even_steps;
  shift = static_cast<int32_t>(((from_zero_point ? 0 : divisor) - pixels) * zero_point);
  offset = from_zero_point ? zero_point : 0;
  const double exact = 1.0 / static_cast<double>(divisor);
  reciprocal = static_cast<float>(exact);
  reciprocal_rest = static_cast<float>(exact - reciprocal);
}

std::span<const KernelRow<AvgpoolFunction>> avgpool_kernels() { return kRows; }

void avgpool_u8(const AvgpoolCall& call, const uint8_t* src, uint8_t* dst) {
  const int64_t rows = call.N * call.OH;
  const int64_t area = std::max<int64_t>(
      (call.rows[0].end - call.rows[0].begin) * (call.columns[0].end - call.columns[0].begin), 1);
  if (rows * call.OW > kFewPixels) {
    const int64_t grain = std::max<int64_t>(kGrainBytes / (area * call.OW * call.C), 1);
    const auto run = [&](int64_t begin, int64_t end) {
      Pixels pixels(call, src, dst);
      for (int64_t row = begin; row < end; ++row) {
        for (int64_t ow = 0; ow < call.OW; ++ow) {
          pixels.average(row / call.OH, row % call.OH, ow, 0, call.C);
        }
      }
    };
    parallel_for(0, rows, grain, run);
    return;
  }
  const int64_t slices = (call.C + kSlice - 1) / kSlice;
  const auto run = [&](int64_t begin, int64_t end) {
    Pixels pixels(call, src, dst);
    for (int64_t task = begin; task < end; ++task) {
      const int64_t row = task / slices / call.OW;
      const int64_t c = task % slices * kSlice;
      pixels.average(row / call.OH, row % call.OH, task / slices % call.OW, c,
                     std::min(kSlice, call.C - c));
    }
  };
  const int64_t tasks = rows * call.OW * slices;
  const int64_t grain = std::max<int64_t>(kGrainBytes / (area * std::min(kSlice, call.C)), 1);
  parallel_for(0, tasks, grain, run);
}

}  // namespace cpuaccel::kernels
