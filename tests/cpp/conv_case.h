// Shared by the tests of the int8 convolution families: cases, random operands, and the check of a
// result against accumulators computed in 64 bits.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "exact_activation.h"
#include "guarded.h"
#include "kernels/conv_dst.h"

namespace cpuaccel::kernels {

inline int64_t conv_size(int64_t size, int64_t kernel, int64_t stride, int64_t padding,
                         int64_t dilation) {
  const int64_t room = size + 2 * padding - (kernel - 1) * dilation - 1;
  return room < 0 ? 0 : room / stride + 1;
}

// A layer with the shape of a family, and the sizes of its src.
template <typename Shape>
struct ConvCase {
  Shape shape;
  int64_t N = 1, IH = 1, IW = 1;
  int32_t src_zero_point = 0;

  int64_t OH() const { return conv_size(IH, shape.KH, shape.SH, shape.PH, shape.DH); }
  int64_t OW() const { return conv_size(IW, shape.KW, shape.SW, shape.PW, shape.DW); }
};

// Sets sizes, src and weights of a family's call.
template <typename Call, typename Shape, typename Weights>
Call conv_call(const ConvCase<Shape>& c, const Weights& weights,
               const GuardedVector<uint8_t>& src) {
  Call call;
  call.weights = &weights;
  call.N = c.N;
  call.IH = c.IH;
  call.IW = c.IW;
  call.OH = c.OH();
  call.OW = c.OW();
  call.src = src.data();
  call.src_zero_point = c.src_zero_point;
  return call;
}

// Lets the epilogue of a call count how often it sees each result.
template <typename Call>
void count_in_epilogue(Call& call, std::vector<int>& seen) {
  call.epilogue.context = &seen;
  call.epilogue.run = [](const void* context, uint8_t* /*dst*/, int64_t offset, int64_t count) {
    auto& counts = *static_cast<std::vector<int>*>(const_cast<void*>(context));
    for (int64_t i = offset; i < offset + count; ++i) {
      ++counts.at(static_cast<size_t>(i));
    }
  };
}

// The accumulators of OC x IC/G x KH x KW weights by the formulas of qconv.h and dwconv.h, in 64
// bits. A depthwise layer has a group for each channel.
template <typename Shape>
GuardedVector<int64_t> conv_accumulators(const ConvCase<Shape>& c, int64_t IC, int64_t OC,
                                         int64_t G, const GuardedVector<uint8_t>& src,
                                         const GuardedVector<int8_t>& weights) {
  const auto& s = c.shape;
  const int64_t inputs = IC / G, outputs = OC / G;
  GuardedVector<int64_t> acc;
  for (int64_t n = 0; n < c.N; ++n) {
    for (int64_t oh = 0; oh < c.OH(); ++oh) {
      for (int64_t ow = 0; ow < c.OW(); ++ow) {
        for (int64_t oc = 0; oc < OC; ++oc) {
          int64_t sum = 0;
          for (int64_t kh = 0; kh < s.KH; ++kh) {
            for (int64_t kw = 0; kw < s.KW; ++kw) {
              const int64_t ih = oh * s.SH - s.PH + kh * s.DH;
              const int64_t iw = ow * s.SW - s.PW + kw * s.DW;
              if (ih < 0 || ih >= c.IH || iw < 0 || iw >= c.IW) {
                continue;
              }
              const int64_t pixel = ((n * c.IH + ih) * c.IW + iw) * IC + oc / outputs * inputs;
              for (int64_t i = 0; i < inputs; ++i) {
                const auto tap = static_cast<size_t>(((oc * inputs + i) * s.KH + kh) * s.KW + kw);
                sum +=
                    int64_t{src[static_cast<size_t>(pixel + i)] - c.src_zero_point} * weights[tap];
              }
            }
          }
          acc.push_back(sum);
        }
      }
    }
  }
  return acc;
}

// All values; the extremes are more frequent, because they reveal saturation.
template <typename T>
GuardedVector<T> random_bytes(std::mt19937& random, int64_t count) {
  std::uniform_int_distribution<int> any(0, 255), often(0, 9);
  GuardedVector<T> values(static_cast<size_t>(count));
  for (auto& value : values) {
    const int kind = often(random);
    const int byte = kind == 0 ? 128 : kind == 1 ? 255 : kind == 2 ? 127 : any(random);
    value = static_cast<T>(byte);
  }
  return values;
}

// The types that a ConvDst can have.
[[maybe_unused]] constexpr DataType kConvDstTypes[] = {DataType::u8, DataType::s8, DataType::f32};

// A dst with random quantizers, guarded on both sides.
class DstCase {
 public:
  // typical: typical magnitude of an accumulator, so that results use the whole range.
  DstCase(std::mt19937& random, int64_t OC, int64_t count, DataType type, double typical)
      : OC_(OC), count_(count) {
    std::uniform_real_distribution<float> scale(0.5f, 2.0f), bias(-40.0f, 40.0f);
    std::uniform_int_distribution<int> byte(0, 255);
    for (int64_t i = 0; i < OC; ++i) {
      scales_.push_back(scale(random) * static_cast<float>(100.0 / typical));
      bias_.push_back(bias(random));
    }
    dst_.type = type;
    dst_.scales = scales_.data();
    dst_.bias = bias_.data();
    dst_.zero_point = byte(random);
    dst_.activation = kActivations[static_cast<size_t>(byte(random)) % kActivations.size()];
    if (dst_.activation != Activation::none) {
      dst_.inverse_scale = type == DataType::f32 ? 1.0f : scale(random);
      for (auto& each : scales_) {
        each *= 0.05f;  // where post-ops are not linear
      }
    }
    if (byte(random) < 64) {
      dst_.min = static_cast<uint8_t>(dst_.zero_point);
      dst_.max = static_cast<uint8_t>(std::min(255, dst_.zero_point + 60));
    }
    bytes_.assign(static_cast<size_t>(count * dst_.element_size()) + 2 * kGuard, 0xa5);
    dst_.data = bytes_.data() + kGuard;
  }

  DstCase(const DstCase&) = delete;
  DstCase& operator=(const DstCase&) = delete;

  const ConvDst& dst() const { return dst_; }

  void check(const GuardedVector<int64_t>& accumulators) const {
    ASSERT_EQ(static_cast<int64_t>(accumulators.size()), count_);
    for (size_t i = 0; i < kGuard; ++i) {
      ASSERT_EQ(bytes_[i], 0xa5) << "wrote before the destination";
      ASSERT_EQ(bytes_[bytes_.size() - 1 - i], 0xa5) << "wrote past the destination";
    }
    for (int64_t i = 0; i < count_; ++i) {
      const auto c = static_cast<size_t>(i % OC_);
      const float sum =
          std::fma(static_cast<float>(accumulators[static_cast<size_t>(i)]), scales_[c], bias_[c]);
      const double real = exact_activation(dst_.activation, static_cast<double>(sum));
      const double error = activation_error(dst_.activation, static_cast<double>(sum));
      if (dst_.type == DataType::f32) {
        ASSERT_NEAR(static_cast<double>(static_cast<const float*>(dst_.data)[i]), real, error)
            << "element " << i;
        continue;
      }
      const int got = dst_.type == DataType::u8 ? static_cast<const uint8_t*>(dst_.data)[i]
                                                : static_cast<const int8_t*>(dst_.data)[i] + 128;
      ASSERT_GE(got, quantized(real - error)) << "element " << i << " channel " << c;
      ASSERT_LE(got, quantized(real + error)) << "element " << i << " channel " << c;
    }
  }

 private:
  int quantized(double real) const {
    const double scaled = real * static_cast<double>(dst_.inverse_scale);
    const double rounded = std::nearbyint(scaled) + dst_.zero_point;
    return static_cast<int>(std::clamp<double>(rounded, dst_.min, dst_.max));
  }

  static constexpr size_t kGuard = 64;
  int64_t OC_, count_;
  GuardedVector<float> scales_, bias_;
  GuardedVector<uint8_t> bytes_;
  ConvDst dst_;
};

}  // namespace cpuaccel::kernels
