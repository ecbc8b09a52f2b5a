#include <algorithm>
#include <array>

#include "kernels/conv_f32/unfold.h"

namespace cpuaccel::kernels {
namespace {

constexpr int64_t kMostColumns = 64;  // of a panel, see pack.h

#define CPUACCEL_ROW(name, isa) KernelRow<UnfoldFunction>{#name, isa, unfold_##name},
constexpr std::array kRows{CPUACCEL_UNFOLD_KERNELS(CPUACCEL_ROW)};
#undef CPUACCEL_ROW

// Strides are rarely above 2, and divisions are slow.
int64_t divide_up(int64_t value, int64_t by) {
  return by == 1 ? value : by == 2 ? (value + 1) >> 1 : (value + by - 1) / by;
}

// Columns of a panel that are successive results of one row.
struct Run {
  int64_t column, count;
  int64_t ih, iw;  // of tap (0, 0), may be outside
};

class Panel {
 public:
  Panel(const UnfoldedImages& images, int64_t first, int64_t count, int64_t nr)
      : s_(*images.shape), function_(images.function), nr_(nr) {
    int64_t oh = first / s_.OW, ow = first % s_.OW;
    for (int64_t column = 0; column < count; ++oh, ow = 0) {
      const int64_t length = std::min(count - column, s_.OW - ow);
      runs_[static_cast<size_t>(run_count_++)] = {column, length, oh * s_.SH - s_.PH,
                                                  ow * s_.SW - s_.PW};
      column += length;
    }
  }

  // `rows` rows of the matrix, from that of `tap` in `plane` on.
  void write(const float* plane, int64_t tap, int64_t rows, float* dst) const {
    const int64_t taps = s_.taps(), area = s_.IH * s_.IW;
    for (int64_t i = 0; i < std::min(rows, taps); ++i) {
      // Rows i, i + taps ... are the same tap of successive channels.
      write_tap(plane, tap, (rows - i + taps - 1) / taps, dst + i * nr_);
      if (++tap == taps) {
        tap = 0;
        plane += area;
      }
    }
  }

 private:
  void write_tap(const float* plane, int64_t tap, int64_t channels, float* dst) const {
    std::array<UnfoldPiece, kMostColumns> pieces;
    size_t count = 0;
    const int64_t dh = tap / s_.KW * s_.DH, dw = tap % s_.KW * s_.DW;
    for (int64_t i = 0; i < run_count_; ++i) {
      const Run& run = runs_[static_cast<size_t>(i)];
      const int64_t ih = run.ih + dh, iw = run.iw + dw;
      if (ih < 0 || ih >= s_.IH || iw >= s_.IW) {
        continue;
      }
      const int64_t begin = iw >= 0 ? 0 : divide_up(-iw, s_.SW);
      const int64_t end = std::min(run.count, divide_up(s_.IW - iw, s_.SW));
      if (begin < end) {
        pieces[count++] = {run.column + begin, end - begin, ih * s_.IW + iw + begin * s_.SW};
      }
    }
    function_({plane, s_.IH * s_.IW, channels, std::span(pieces.data(), count), s_.SW, dst,
               s_.taps() * nr_, nr_});
  }

  const Conv2dShape& s_;
  UnfoldFunction* function_;
  int64_t nr_;
  std::array<Run, kMostColumns> runs_;
  int64_t run_count_ = 0;
};

}  // namespace

std::span<const KernelRow<UnfoldFunction>> unfold_kernels() { return kRows; }

void unfold_panels(const UnfoldedImages& images, const PanelBlock& block) {
  const auto& s = *images.shape;
  const int64_t tap = block.k0 % s.taps();
  const float* plane =
      images.src + block.g * images.image_floats() + block.k0 / s.taps() * s.IH * s.IW;
  float* dst = block.panels;
  for (int64_t n = 0; n < block.nc; n += block.nr, dst += block.kc * block.nr) {
    const Panel panel(images, block.n0 + n, std::min(block.nr, block.nc - n), block.nr);
    panel.write(plane, tap, block.kc, dst);
  }
}

}  // namespace cpuaccel::kernels
