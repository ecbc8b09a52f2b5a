#include "kernels/qconv/runs.h"

#include <algorithm>
#include <cstring>

#include "kernels/round_up.h"

namespace cpuaccel::kernels {
namespace {

int64_t entries(const QconvLayout& layout) { return layout.taps * kQconvPanel; }

}  // namespace

int64_t qconv_reach(const QconvLayout& layout) {
  return (layout.parts - 1) * layout.part_inputs +
         std::max<int64_t>(layout.steps * 4, layout.several_groups ? kQconvBlock : 0);
}

bool qconv_is_dense_1x1(const QconvShape& s) {
  return s.KH == 1 && s.KW == 1 && s.SH == 1 && s.SW == 1 && s.PH == 0 && s.PW == 0;
}

int64_t QconvRuns::room(const QconvLayout& layout) {
  return ScratchArrays::room<const uint8_t*>(entries(layout)) +
         ScratchArrays::room<uint8_t>(qconv_reach(layout)) +
         ScratchArrays::room<uint8_t>(entries(layout) * qconv_reach(layout));
}

QconvRuns::QconvRuns(const QconvCall& call, ScratchArrays& memory)
    : call_(call),
      shape_(call.weights->shape),
      layout_(call.weights->layout),
      src_end_(call.src + call.N * call.IH * call.IW * shape_.IC),
      reach_(qconv_reach(layout_)),
      columns_(layout_.merged_row ? shape_.KW : 1),
      dense_1x1_(qconv_is_dense_1x1(shape_)),
      table_(memory.take<const uint8_t*>(entries(layout_))),
      padding_(memory.take<uint8_t>(reach_)),
      copies_(memory.take<uint8_t>(entries(layout_) * reach_)) {
  std::memset(padding_, call.src_zero_point, static_cast<size_t>(reach_));
}

void QconvRuns::fill(int64_t first, int64_t count) {
  copy_ = copies_;
  if (dense_1x1_ && src_end_ - (call_.src + (first + count - 1) * shape_.IC) >= reach_) {
    for (int64_t i = 0; i < count; ++i) {
      table_[i] = call_.src + (first + i) * shape_.IC;
    }
    repeat_last(count);
    return;
  }
  const bool row_taps = layout_.merged_row || layout_.taps == 1;
  int64_t n = first / (call_.OH * call_.OW);
  int64_t oh = first / call_.OW % call_.OH, ow = first % call_.OW;
  for (int64_t i = 0; i < count;) {
    const int64_t pixels = std::min(count - i, call_.OW - ow);
    const int64_t ih = oh * shape_.SH - shape_.PH, iw = ow * shape_.SW - shape_.PW;
    for (int64_t tap = 0; tap < layout_.taps; ++tap) {
      const int64_t kh = row_taps ? tap : tap / shape_.KW;
      const int64_t kw = row_taps ? 0 : tap % shape_.KW;
      fill_row(table_ + tap * kQconvPanel + i, pixels, n, ih + kh * shape_.DH, iw + kw * shape_.DW);
    }
    i += pixels;
    ow = 0;
    if (++oh == call_.OH) {
      oh = 0;
      ++n;
    }
  }
  repeat_last(count);
}

// Fills runs of one image row: the first from column iw, the others SW columns apart.
void QconvRuns::fill_row(const uint8_t** to, int64_t count, int64_t n, int64_t ih, int64_t iw) {
  if (ih < 0 || ih >= call_.IH) {
    std::fill_n(to, count, padding_);
    return;
  }
  const uint8_t* row = call_.src + (n * call_.IH + ih) * call_.IW * shape_.IC;
  // Runs [begin, end) lie inside of the image, and far enough from the end of the source for a
  // tile's reads.
  const int64_t last = call_.IW - columns_;
  const int64_t left = iw < 0 ? divide_up(-iw, shape_.SW) : 0;
  int64_t end = iw <= last ? std::min(count, (last - iw) / shape_.SW + 1) : 0;
  while (end > left && src_end_ - (row + (iw + (end - 1) * shape_.SW) * shape_.IC) < reach_) {
    --end;
  }
  const int64_t begin = std::min(left, count);
  end = std::max(begin, end);
  for (int64_t i = 0; i < begin; ++i) {
    to[i] = run(row, iw + i * shape_.SW);
  }
  for (int64_t i = begin; i < end; ++i) {
    to[i] = row + (iw + i * shape_.SW) * shape_.IC;
  }
  for (int64_t i = end; i < count; ++i) {
    to[i] = run(row, iw + i * shape_.SW);
  }
}

// Returns a run at the edge of the image, or one so near to the end of the source that a step would
// read past it: a copy, or the padding.
const uint8_t* QconvRuns::run(const uint8_t* row, int64_t iw) {
  if (iw + columns_ <= 0 || iw >= call_.IW) {
    return padding_;
  }
  const int64_t left = std::max<int64_t>(0, -iw);
  const int64_t right = std::min(columns_, call_.IW - iw);
  const uint8_t* from = row + (iw + left) * shape_.IC;
  std::memset(copy_, call_.src_zero_point, static_cast<size_t>(reach_));
  const int64_t bytes = layout_.merged_row
                            ? (right - left) * shape_.IC
                            : std::min(reach_, static_cast<int64_t>(src_end_ - from));
  std::memcpy(copy_ + left * shape_.IC, from, static_cast<size_t>(bytes));
  const uint8_t* result = copy_;
  copy_ += reach_;
  return result;
}

// Tiles read a multiple of kQconvTallest pixels.
void QconvRuns::repeat_last(int64_t count) {
  for (int64_t i = count; i % kQconvTallest != 0; ++i) {
    for (int64_t tap = 0; tap < layout_.taps; ++tap) {
      table_[tap * kQconvPanel + i] = table_[tap * kQconvPanel + count - 1];
    }
  }
}

}  // namespace cpuaccel::kernels
