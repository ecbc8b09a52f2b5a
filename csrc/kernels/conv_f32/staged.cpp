#include "kernels/conv_f32/staged.h"

#include <algorithm>

#include "kernels/gemm/blocking.h"

namespace cpuaccel::kernels {
namespace {

// Tile heights in pixels divide this, or nearly so.
constexpr int64_t kPixelsStep = 56;

// With pixels a power of two apart, the taps of a pixel would share few sets of L1.
int64_t spread(int64_t channels) { return channels % 128 == 0 ? channels + 16 : channels; }

int64_t seen_rows(const Conv2dShape& s, int64_t rows) {
  return (rows - 1) * s.SH + (s.KH - 1) * s.DH + 1;
}

}  // namespace

Staging::Form Staging::form_of(const Conv2dShape& s, ImageLayout layout) {
  const bool padded = s.PH > 0 || s.PW > 0;
  if (layout == ImageLayout::channels_last && !padded) {
    return Form::in_place;
  }
  return s.taps() == 1 && !padded ? Form::one_tap : Form::rows;
}

Staging::Staging(const Conv2dShape& shape, ImageLayout layout, WeightOrder order,
                 int64_t most_floats, int64_t blocks_wanted)
    : s_(shape),
      last_(layout == ImageLayout::channels_last),
      form_(form_of(shape, layout)),
      channels_(shape.C / shape.groups),
      pixel_(!last_                ? 1
             : form_ == Form::rows ? spread(channels_)
                                   : s_.C) {
  if (form_ == Form::one_tap) {
    by_pixels(most_floats, blocks_wanted);
  } else {
    by_rows(most_floats, blocks_wanted);
  }
  set_offsets(order);
}

void Staging::set_offsets(WeightOrder order) {
  const int64_t channel_step = last_ ? 1 : rows_in_ * pitch_;
  const auto offset = [&](int64_t c, int64_t tap) {
    const int64_t kh = tap / s_.KW, kw = tap % s_.KW;
    return static_cast<int32_t>(c * channel_step + (kh * s_.DH * pitch_ + kw * s_.DW) * pixel_);
  };
  const bool last = order == WeightOrder::channels_last;
  const int64_t outer = last ? s_.taps() : channels_, inner = last ? channels_ : s_.taps();
  offsets_.reserve(static_cast<size_t>(outer * inner));
  for (int64_t i = 0; i < outer; ++i) {
    for (int64_t j = 0; j < inner; ++j) {
      offsets_.push_back(last ? offset(j, i) : offset(i, j));
    }
  }
}

void Staging::by_pixels(int64_t most_floats, int64_t blocks_wanted) {
  const int64_t fit = round_up(at_least(most_floats / channels_, 1), kPixelsStep);
  const int64_t wanted = round_up(divide_up(s_.pixels(), blocks_wanted), kPixelsStep);
  columns_ = at_most(even_part(s_.pixels(), at_most(fit, wanted), 14), s_.pixels());
  row_blocks_ = blocks_ = divide_up(s_.pixels(), columns_);
  most_pixels_ = pitch_ = columns_;
  floats_ = channels_ * pitch_;
}

void Staging::by_rows(int64_t most_floats, int64_t blocks_wanted) {
  const bool staged = form_ == Form::rows;
  const auto seen_columns = [&](int64_t columns) {
    return (columns - 1) * s_.SW + (s_.KW - 1) * s_.DW + 1;
  };
  const int64_t row_floats = channels_ * seen_rows(s_, 1);  // of a column that one row sees
  const int64_t fit_columns =
      staged ? (most_floats / row_floats - (s_.KW - 1) * s_.DW - 1) / s_.SW + 1 : s_.OW;
  if (fit_columns < s_.OW || s_.OH < blocks_wanted) {
    const int64_t wanted = divide_up(s_.OW, divide_up(blocks_wanted, s_.OH));
    const int64_t most = at_least(at_most(fit_columns, round_up(wanted, kPixelsStep)), kPixelsStep);
    columns_ = at_most(even_part(s_.OW, most, 14), s_.OW);
  } else {
    columns_ = s_.OW;
    const int64_t fit = most_floats / (channels_ * seen_columns(s_.OW)) - seen_rows(s_, 1);
    const int64_t rows = staged ? fit / s_.SH + 1 : s_.OH;
    rows_ = even_part(s_.OH, at_least(at_most(rows, divide_up(s_.OH, blocks_wanted)), 1), 1);
  }
  row_blocks_ = divide_up(s_.OW, columns_);
  blocks_ = row_blocks_ * divide_up(s_.OH, rows_);
  most_pixels_ = rows_ * columns_;
  rows_in_ = seen_rows(s_, rows_);
  pitch_ = staged ? seen_columns(columns_) : s_.IW;
  floats_ = !staged ? 0 : rows_in_ * pitch_ * (last_ ? pixel_ : channels_);
}

int64_t Staging::load(const float* src, int64_t block, float* memory, const float** pixels) const {
  if (form_ == Form::one_tap) {
    const int64_t count = std::min(columns_, s_.pixels() - first(block));
    load_one_tap(src, first(block), count, memory);
    for (int64_t i = 0; i < count; ++i) {
      pixels[i] = memory + i;
    }
    return count;
  }
  const int64_t oh = first(block) / s_.OW, ow = first(block) % s_.OW;
  const int64_t rows = std::min(rows_, s_.OH - oh), columns = std::min(columns_, s_.OW - ow);
  const float* origin = memory;
  if (form_ == Form::rows) {
    load_rows(src, oh, ow, rows, memory);
  } else {
    origin = src + (oh * s_.SH * s_.IW + ow * s_.SW) * s_.C;
  }
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j) {
      *pixels++ = origin + (i * s_.SH * pitch_ + j * s_.SW) * pixel_;
    }
  }
  return rows * columns;
}

void Staging::load_one_tap(const float* src, int64_t first, int64_t count, float* memory) const {
  const int64_t area = s_.IH * s_.IW;
  const bool all = s_.SH == 1 && s_.SW == 1;
  for (int64_t c = 0; c < channels_; ++c, src += area, memory += pitch_) {
    if (all) {
      std::copy_n(src + first, count, memory);
      continue;
    }
    int64_t oh = first / s_.OW, ow = first % s_.OW;
    for (int64_t i = 0; i < count; ++oh, ow = 0) {
      const float* row = src + oh * s_.SH * s_.IW;
      for (; ow < s_.OW && i < count; ++ow, ++i) {
        memory[i] = row[ow * s_.SW];
      }
    }
  }
}

// Copies rows of one channel, or of all channels if they are last.
void Staging::load_rows(const float* src, int64_t oh, int64_t ow, int64_t rows,
                        float* memory) const {
  const int64_t pixel = last_ ? channels_ : 1;  // floats to copy per pixel
  const int64_t planes = last_ ? 1 : channels_;
  const int64_t from_step = last_ ? s_.C : 1;
  const int64_t left = at_most(at_least(s_.PW - ow * s_.SW, 0), pitch_);
  const int64_t iw = ow * s_.SW - s_.PW + left;
  const int64_t inside = at_least(at_most(s_.IW - iw, pitch_ - left), 0);
  const int64_t seen = seen_rows(s_, rows);
  for (int64_t plane = 0; plane < planes; ++plane, src += s_.IH * s_.IW) {
    float* to = memory + plane * rows_in_ * pitch_;
    for (int64_t r = 0; r < seen; ++r, to += pitch_ * pixel_) {
      const int64_t ih = oh * s_.SH - s_.PH + r;
      if (ih < 0 || ih >= s_.IH || inside == 0) {
        std::fill_n(to, pitch_ * pixel_, 0.0f);
        continue;
      }
      const float* from = src + (ih * s_.IW + iw) * from_step;
      std::fill_n(to, left * pixel_, 0.0f);
      if (from_step == pixel_) {
        std::copy_n(from, inside * pixel, to + left * pixel_);
      } else {
        for (int64_t i = 0; i < inside; ++i) {
          std::copy_n(from + i * from_step, pixel, to + (left + i) * pixel_);
        }
      }
      std::fill_n(to + (left + inside) * pixel_, (pitch_ - left - inside) * pixel_, 0.0f);
    }
  }
}

}  // namespace cpuaccel::kernels
