#include <algorithm>
#include <array>
#include <cstring>

#include "kernels/conv_f32/unfold.h"
#include "kernels/inline.h"

namespace cpuaccel::kernels {
namespace {

constexpr int64_t kMostColumns = 64;  // of a panel, see pack.h

// Columns of a panel that are successive results of one row.
struct Run {
  int64_t column, count;
  int64_t ih, iw;  // of tap (0, 0), may be outside
};

// Part of a run that a tap finds inside of the image.
struct Piece {
  int64_t column, count;
  int64_t offset;  // from the plane
};

template <int64_t kFloats>
CPUACCEL_INLINE void copy(const float* src, float* dst) {
  std::memcpy(dst, src, kFloats * sizeof(float));
}

// Two copies of a fixed size may overlap; one of any size would be a call.
CPUACCEL_INLINE void copy_up_to_16(const float* src, int64_t count, float* dst) {
  if (count == 16) {
    copy<16>(src, dst);
  } else if (count >= 8) {
    float last[8];
    copy<8>(src + count - 8, last);
    copy<8>(src, dst);
    copy<8>(last, dst + count - 8);
  } else if (count >= 4) {
    float last[4];
    copy<4>(src + count - 4, last);
    copy<4>(src, dst);
    copy<4>(last, dst + count - 4);
  } else {
    for (int64_t i = 0; i < count; ++i) {
      dst[i] = src[i];
    }
  }
}

template <int64_t kStride>
CPUACCEL_INLINE void copy_piece(const float* src, int64_t stride, int64_t count, float* dst) {
  if constexpr (kStride == 1) {
    for (; count > 16; count -= 16, src += 16, dst += 16) {
      copy<16>(src, dst);
    }
    copy_up_to_16(src, count, dst);
  } else {
    const int64_t step = kStride == 0 ? stride : kStride;
    for (int64_t i = 0; i < count; ++i) {
      dst[i] = src[i * step];
    }
  }
}

// A panel: what each tap copies to it is the same for all channels, so it is found out once.
class Panel {
 public:
  Panel(const Conv2dShape& shape, int64_t first, int64_t count, int64_t nr) : s_(shape), nr_(nr) {
    for (int64_t column = 0; column < count;) {
      const int64_t oh = (first + column) / s_.OW, ow = (first + column) % s_.OW;
      const int64_t length = std::min(count - column, s_.OW - ow);
      runs_[static_cast<size_t>(run_count_++)] = {column, length, oh * s_.SH - s_.PH,
                                                  ow * s_.SW - s_.PW};
      column += length;
    }
  }

  // Row by row from (c, tap) of the matrix on.
  template <int64_t kStride>
  void write(const float* plane, int64_t tap, int64_t rows, float* dst) const {
    const int64_t taps = s_.taps(), area = s_.IH * s_.IW;
    if (rows < taps) {  // not worth a plan: it would serve one channel
      for (; rows > 0; --rows, dst += nr_) {
        write_tap<kStride>(plane, tap, 1, dst);
        tap = tap + 1 == taps ? 0 : tap + 1;
        plane += tap == 0 ? area : 0;
      }
      return;
    }
    for (int64_t i = 0; i < taps; ++i) {
      // The rows of this tap: i, i + taps ...
      const int64_t own = (tap + i) % taps, channel = (tap + i) / taps;
      write_tap<kStride>(plane + channel * area, own, (rows - i + taps - 1) / taps, dst + i * nr_);
    }
  }

 private:
  template <int64_t kStride>
  void write_tap(const float* plane, int64_t tap, int64_t channels, float* dst) const {
    std::array<Piece, kMostColumns> pieces;
    int64_t piece_count = 0, covered = 0;
    const int64_t dh = tap / s_.KW * s_.DH, dw = tap % s_.KW * s_.DW;
    for (int64_t i = 0; i < run_count_; ++i) {
      const Run& run = runs_[static_cast<size_t>(i)];
      const int64_t ih = run.ih + dh, iw = run.iw + dw;
      if (ih < 0 || ih >= s_.IH || iw >= s_.IW) {
        continue;
      }
      const int64_t before = iw >= 0 ? 0 : (-iw + s_.SW - 1) / s_.SW;
      const int64_t end = std::min(run.count, (s_.IW - iw + s_.SW - 1) / s_.SW);
      if (before < end) {
        pieces[static_cast<size_t>(piece_count++)] = {run.column + before, end - before,
                                                      ih * s_.IW + iw + before * s_.SW};
        covered += end - before;
      }
    }
    const int64_t area = s_.IH * s_.IW, step = s_.taps() * nr_;
    for (int64_t c = 0; c < channels; ++c, plane += area, dst += step) {
      if (covered != nr_) {
        std::fill_n(dst, nr_, 0.0f);
      }
      for (int64_t i = 0; i < piece_count; ++i) {
        const Piece& piece = pieces[static_cast<size_t>(i)];
        copy_piece<kStride>(plane + piece.offset, s_.SW, piece.count, dst + piece.column);
      }
    }
  }

  const Conv2dShape& s_;
  int64_t nr_;
  std::array<Run, kMostColumns> runs_;
  int64_t run_count_ = 0;
};

}  // namespace

void unfold_panels(const void* images, const PanelBlock& block) {
  const auto& source = *static_cast<const UnfoldedImages*>(images);
  const auto& s = *source.shape;
  const int64_t tap = block.k0 % s.taps();
  const float* plane =
      source.src + block.g * source.image_floats() + block.k0 / s.taps() * s.IH * s.IW;
  float* dst = block.panels;
  for (int64_t n = 0; n < block.nc; n += block.nr, dst += block.kc * block.nr) {
    const Panel panel(s, block.n0 + n, std::min(block.nr, block.nc - n), block.nr);
    if (s.SW == 1) {
      panel.write<1>(plane, tap, block.kc, dst);
    } else if (s.SW == 2) {
      panel.write<2>(plane, tap, block.kc, dst);
    } else {
      panel.write<0>(plane, tap, block.kc, dst);
    }
  }
}

}  // namespace cpuaccel::kernels
