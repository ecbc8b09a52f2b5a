#include <algorithm>
#include <cstring>

#include "kernels/gemm/half.h"
#include "kernels/qgemm_wq/qgemm_wq.h"
#include "kernels/round_up.h"

namespace cpuaccel::kernels {
namespace {

void tile(const QgemmWqTile& t) {
  const WqFormat& format = *t.format;
  const int64_t run = format.run(), padded = round_up(format.group, run);
  const int64_t padded_rows = round_up(padded, kWqRowRun);
  std::fill_n(t.sums, t.width * kWqColumns, 0.0f);
  for (int64_t g = 0; g < t.layout->groups; ++g) {
    const std::byte* group = t.panel + g * t.layout->group_bytes();
    const auto* codes = reinterpret_cast<const uint8_t*>(group);
    const std::byte* scales = group + t.layout->code_bytes;
    const std::byte* zeros = scales + t.layout->scale_bytes;
    const int32_t* rows = t.rows + g * padded_rows / 4 * t.width;
    for (int64_t i = 0; i < t.width; ++i) {
      const float row_sum = t.row_sums[g * t.width + i];
      for (int64_t n = 0; n < kWqColumns; ++n) {
        int64_t dot = 0;
        for (int64_t k = 0; k < padded; ++k) {
          int8_t x[4];
          std::memcpy(x, rows + wq_row_dword(k / 4, i, t.width), 4);
          const uint8_t byte = codes[(k / run * kWqColumns + n) * 4 + k % 4];
          const int code =
              format.bits == 8 ? static_cast<int8_t>(byte) : byte >> (k % 8 < 4 ? 0 : 4) & 0xf;
          dot += x[k % 4] * code;
        }
        const bool integers = format.zeros == WqZeros::integers;
        const auto zero =
            static_cast<float>(integers ? static_cast<int8_t>(zeros[n]) : format.center());
        const float real =
            format.zeros == WqZeros::reals ? element_to_float(zeros, format.scales, n) : 0.0f;
        const float sum = __builtin_fmaf(-zero, row_sum, static_cast<float>(dot));
        float& to = t.sums[i * kWqColumns + n];
        to = __builtin_fmaf(real, row_sum, to);
        to = __builtin_fmaf(element_to_float(scales, format.scales, n), sum, to);
      }
    }
  }
}

void tiles(const QgemmWqTile& t) {
  const int64_t group = round_up(t.format->group, std::max(t.format->run(), kWqRowRun));
  QgemmWqTile one = t;
  for (one.tiles = 1; one.sums != t.sums + t.tiles * t.width * kWqColumns;) {
    tile(one);
    one.rows += t.layout->groups * group / 4 * t.width;
    one.row_sums += t.layout->groups * t.width;
    one.sums += t.width * kWqColumns;
  }
}

}  // namespace

const QgemmWqKernels& qgemm_wq_ref() {
  static constexpr QgemmWqKernels kernels{tiles};
  return kernels;
}

}  // namespace cpuaccel::kernels
