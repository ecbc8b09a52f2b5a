// Shared by the tests of the float convolution families: random operands, and the check of a result
// against sums in double precision.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "conv_case.h"
#include "guarded.h"
#include "kernels/conv2d_shape.h"

namespace cpuaccel::kernels {

inline Conv2dShape with_result_sizes(Conv2dShape s) {
  s.OH = conv_size(s.IH, s.KH, s.SH, s.PH, s.DH);
  s.OW = conv_size(s.IW, s.KW, s.SW, s.PW, s.DW);
  return s;
}

inline std::string to_text(const Conv2dShape& s) {
  std::string text;
  for (const int64_t value :
       {s.N, s.C, s.IH, s.IW, s.OC, s.groups, s.KH, s.KW, s.SH, s.SW, s.PH, s.PW, s.DH, s.DW}) {
    text += " " + std::to_string(value);
  }
  return "N C IH IW OC G KH KW SH SW PH PW DH DW" + text;
}

inline GuardedVector<float> random_floats(std::mt19937& random, int64_t count) {
  std::uniform_real_distribution<float> any(-1.0f, 1.0f);
  GuardedVector<float> values(static_cast<size_t>(count));
  for (auto& value : values) {
    value = any(random);
  }
  return values;
}

// Operands in NCHW, and the formula of Conv2dShape in double.
class ConvF32Case {
 public:
  ConvF32Case(std::mt19937& random, const Conv2dShape& shape, bool with_bias)
      : s_(shape),
        src_(random_floats(random, s_.N * s_.C * s_.IH * s_.IW)),
        weights_(random_floats(random, s_.OC * (s_.C / s_.groups) * s_.taps())) {
    if (with_bias) {
      bias_ = random_floats(random, s_.OC);
    }
    clear();
  }

  void clear() {
    dst_.assign(static_cast<size_t>(s_.N * s_.OC * s_.pixels()) + 2 * kGuard, kUntouched);
  }

  const float* bias() const { return bias_.empty() ? nullptr : bias_.data(); }
  float* dst() { return dst_.data() + kGuard; }

  GuardedVector<float> src(ImageLayout layout) const {
    return layout == ImageLayout::channels_first ? src_ : turned(src_, s_.N, s_.C, s_.IH * s_.IW);
  }
  // OC x (C/groups) x taps for channels_first, otherwise OC x taps x C/groups.
  GuardedVector<float> weights(ImageLayout layout) const {
    return layout == ImageLayout::channels_first
               ? weights_
               : turned(weights_, s_.OC, s_.C / s_.groups, s_.taps());
  }

  void check(ImageLayout layout) {
    if (expected_.empty()) {
      compute();
    }
    for (size_t i = 0; i < kGuard; ++i) {
      ASSERT_EQ(dst_[i], kUntouched) << "wrote before the destination";
      ASSERT_EQ(dst_[dst_.size() - 1 - i], kUntouched) << "wrote past the destination";
    }
    auto expected = expected_.begin();
    for (int64_t n = 0; n < s_.N; ++n) {
      for (int64_t oc = 0; oc < s_.OC; ++oc) {
        for (int64_t i = 0; i < s_.pixels(); ++i, ++expected) {
          const auto& [exact, magnitude] = *expected;
          const int64_t at = layout == ImageLayout::channels_first
                                 ? (n * s_.OC + oc) * s_.pixels() + i
                                 : (n * s_.pixels() + i) * s_.OC + oc;
          const double got = static_cast<double>(dst_[static_cast<size_t>(at) + kGuard]);
          const double roundings =
              static_cast<double>(s_.C / s_.groups * s_.taps() + 1) * 0x1p-24 * 1.001;
          ASSERT_NEAR(got, exact, roundings * magnitude)
              << "image " << n << " channel " << oc << " pixel " << i;
        }
      }
    }
  }

 private:
  static constexpr size_t kGuard = 64;
  static constexpr float kUntouched = 12345.0f;

  static GuardedVector<float> turned(const GuardedVector<float>& values, int64_t count,
                                     int64_t rows, int64_t columns) {
    GuardedVector<float> result(values.size());
    for (int64_t n = 0; n < count; ++n) {
      for (int64_t i = 0; i < rows; ++i) {
        for (int64_t j = 0; j < columns; ++j) {
          result[static_cast<size_t>((n * columns + j) * rows + i)] =
              values[static_cast<size_t>((n * rows + i) * columns + j)];
        }
      }
    }
    return result;
  }

  // Computes all results, image by image and channel by channel, once for all layouts.
  void compute() {
    expected_.reserve(static_cast<size_t>(s_.N * s_.OC * s_.pixels()));
    for (int64_t n = 0; n < s_.N; ++n) {
      for (int64_t oc = 0; oc < s_.OC; ++oc) {
        for (int64_t i = 0; i < s_.pixels(); ++i) {
          expected_.push_back(sum(n, oc / (s_.OC / s_.groups), oc, i / s_.OW, i % s_.OW));
        }
      }
    }
  }

  // The sum of the terms, and the sum of their magnitudes.
  struct Sum {
    double total, magnitude;
  };
  Sum sum(int64_t n, int64_t group, int64_t oc, int64_t oh, int64_t ow) const {
    const int64_t channels = s_.C / s_.groups;
    double total = bias_.empty() ? 0.0 : static_cast<double>(bias_[static_cast<size_t>(oc)]);
    double magnitude = std::fabs(total);
    for (int64_t c = 0; c < channels; ++c) {
      for (int64_t tap = 0; tap < s_.taps(); ++tap) {
        const int64_t ih = oh * s_.SH - s_.PH + tap / s_.KW * s_.DH;
        const int64_t iw = ow * s_.SW - s_.PW + tap % s_.KW * s_.DW;
        if (ih >= 0 && ih < s_.IH && iw >= 0 && iw < s_.IW) {
          const int64_t at = ((n * s_.C + group * channels + c) * s_.IH + ih) * s_.IW + iw;
          const double product =
              static_cast<double>(src_[static_cast<size_t>(at)]) *
              static_cast<double>(
                  weights_[static_cast<size_t>((oc * channels + c) * s_.taps() + tap)]);
          total += product;
          magnitude += std::fabs(product);
        }
      }
    }
    return {total, magnitude};
  }

  Conv2dShape s_;
  GuardedVector<float> src_, weights_, bias_, dst_;
  std::vector<Sum> expected_;
};

}  // namespace cpuaccel::kernels
