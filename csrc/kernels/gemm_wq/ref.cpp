#include <algorithm>

#include "kernels/gemm/half.h"
#include "kernels/gemm_wq/gemm_wq.h"
#include "kernels/round_up.h"

namespace cpuaccel::kernels {
namespace {

// Group g of a panel.
class Group {
 public:
  Group(const std::byte* panel, const WqFormat& format, const WqLayout& layout, int64_t g)
      : format_(format),
        codes_(reinterpret_cast<const uint8_t*>(panel + g * layout.group_bytes())),
        scales_(panel + g * layout.group_bytes() + layout.code_bytes),
        zeros_(scales_ + layout.scale_bytes) {}

  float code(int64_t k, int64_t n) const {
    const int64_t dword = k / format_.run() * kWqColumns + n;
    const uint8_t byte = codes_[dword * 4 + k % 4];
    return static_cast<float>(format_.bits == 8 ? static_cast<int8_t>(byte)
                                                : byte >> (k % 8 < 4 ? 0 : 4) & 0xf);
  }
  float scale(int64_t n) const { return element_to_float(scales_, format_.scales, n); }
  float zero(int64_t n) const {
    return static_cast<float>(format_.zeros == WqZeros::integers ? static_cast<int8_t>(zeros_[n])
                                                                 : format_.center());
  }
  float real(int64_t n) const {
    return format_.zeros == WqZeros::reals ? element_to_float(zeros_, format_.scales, n) : 0.0f;
  }

 private:
  const WqFormat& format_;
  const uint8_t* codes_;
  const std::byte *scales_, *zeros_;
};

void tile(const WqTile& t) {
  const int64_t padded = round_up(t.format->group, t.format->run());
  std::fill_n(t.sums, t.width * kWqColumns, 0.0f);
  for (int64_t g = 0; g < t.layout->groups; ++g) {
    const Group group(t.panel, *t.format, *t.layout, g);
    const float* rows = t.rows + g * padded * t.width;
    for (int64_t i = 0; i < t.width; ++i) {
      const float x = t.row_sums[g * t.width + i];
      for (int64_t n = 0; n < kWqColumns; ++n) {
        float sum = 0.0f;
        for (int64_t k = 0; k < t.format->group; ++k) {
          sum = __builtin_fmaf(rows[k * t.width + i], group.code(k, n), sum);
        }
        float& to = t.sums[i * kWqColumns + n];
        to = __builtin_fmaf(group.real(n), x, to);
        to = __builtin_fmaf(group.scale(n), __builtin_fmaf(-group.zero(n), x, sum), to);
      }
    }
  }
}

void unpack(const WqUnpack& u) {
  for (int64_t k = u.k0; k < u.k0 + u.depth; ++k) {
    const Group group(u.panel, *u.format, *u.layout, k / u.format->group);
    for (int64_t j = 0; j < u.columns; ++j) {
      const int64_t n = u.column + j;
      const float code = group.code(k % u.format->group, n) - group.zero(n);
      *u.dst(k, j) = __builtin_fmaf(code, group.scale(n), group.real(n));
    }
  }
}

}  // namespace

const GemmWqKernels& gemm_wq_ref() {
  static constexpr std::array<float, 4> kPlaces{1.0f, 1.0f, 1.0f, 1.0f};
  static constexpr GemmWqKernels kernels{kPlaces, kPlaces, tile, unpack};
  return kernels;
}

}  // namespace cpuaccel::kernels
