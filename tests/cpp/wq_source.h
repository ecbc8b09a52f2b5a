// Random weights of 4 or 8 bits by groups, and what they stand for.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include "emulated.h"
#include "guarded.h"
#include "kernels/gemm/half.h"
#include "kernels/gemm_wq/dst.h"
#include "kernels/gemm_wq/weights.h"
#include "kernels/round_up.h"

namespace cpuaccel::kernels {

inline size_t index(int64_t i) { return static_cast<size_t>(i); }

// Codes, scales and zeros.
struct WqSource {
  WqFormat format;
  int64_t N, K, groups;
  GuardedVector<int8_t> codes, integers;
  GuardedVector<float> scales, reals;

  WqSource(std::mt19937& random, const WqFormat& of, int64_t n, int64_t k)
      : format(of), N(n), K(k), groups(divide_up(k, of.group)) {
    std::normal_distribution<float> normal(0.0f, 1.0f);
    std::uniform_int_distribution<int> code(format.bits == 4 ? 0 : -128,
                                            format.bits == 4 ? 15 : 127);
    for (int64_t i = 0; i < N * K; ++i) {
      codes.push_back(static_cast<int8_t>(code(random)));
    }
    for (int64_t i = 0; i < N * groups; ++i) {
      scales.push_back(in_format(normal(random)));
      reals.push_back(in_format(normal(random)));
      integers.push_back(static_cast<int8_t>(code(random)));
    }
  }

  // A value that the format's type has.
  float in_format(float value) const {
    uint32_t bits = 0;
    float_to_element(value, &bits, format.scales, 0);
    return element_to_float(&bits, format.scales, 0);
  }

  WqWeights packed() const {
    WqWeights weights(format, N, K);
    for (int64_t panel = 0; panel < weights.panels(); ++panel) {
      const int64_t n = panel * kWqColumns;
      weights.set_panel(panel, {.codes = codes.data() + n * K,
                                .code_stride = K,
                                .scales = scales.data() + n * groups,
                                .integers = integers.data() + n * groups,
                                .reals = reals.data() + n * groups,
                                .scale_stride = groups});
    }
    return weights;
  }

  struct Term {
    double weight, error_unit;  // |scale| * (|code| + |zero|) or the same of reals
  };
  Term at(int64_t k, int64_t n) const {
    const size_t group = index(n * groups + k / format.group);
    const double code = codes[index(n * K + k)], scale = static_cast<double>(scales[group]);
    if (format.zeros == WqZeros::reals) {
      const double centered = code - format.center(), real = static_cast<double>(reals[group]);
      return {centered * scale + real,
              (std::abs(code) + format.center()) * std::abs(scale) + std::abs(real)};
    }
    const double zero = format.zeros == WqZeros::integers ? integers[group] : format.center();
    return {(code - zero) * scale, (std::abs(code) + std::abs(zero)) * std::abs(scale)};
  }
};

// Runs `product` with a plain dst, and with everything that WqDst can do, and compares them.
template <typename Product>
void check_dst(std::mt19937& random, int64_t M, int64_t N, DataType type, const Product& product) {
  const int64_t stride = N + 3;
  const auto bytes = index(M * stride * data_type_size(type));
  GuardedVector<uint8_t> plain(bytes), dst(bytes), times(bytes), plus(bytes);
  std::normal_distribution<float> normal(0.0f, 1.0f);
  for (int64_t i = 0; i < M * stride; ++i) {
    float_to_element(normal(random), times.data(), type, i);
    float_to_element(normal(random), plus.data(), type, i);
  }
  product(WqDst{.data = plain.data(), .type = type, .stride = stride});
  const GemmAfter relu{[](const void*, float* row, int64_t count) {
                         std::transform(row, row + count, row,
                                        [](float value) { return std::max(value, 0.0f); });
                       },
                       nullptr};
  product(WqDst{.data = dst.data(),
                .type = type,
                .stride = stride,
                .function = relu,
                .times = times.data(),
                .plus = plus.data()});
  const float own = type == DataType::f32 ? 0x1p-22f : 0x1p-7f;
  for (int64_t m = 0; m < M; ++m) {
    for (int64_t at = m * stride; at < m * stride + N; ++at) {
      const float product_of = std::max(element_to_float(plain.data(), type, at), 0.0f) *
                               element_to_float(times.data(), type, at);
      const float added = element_to_float(plus.data(), type, at);
      ASSERT_NEAR(element_to_float(dst.data(), type, at), product_of + added,
                  own * (std::abs(product_of) + std::abs(added)))
          << m << ", " << at - m * stride;
    }
  }
}

// Each number of bits with each type of scales and each kind of zeros.
inline std::vector<WqFormat> wq_formats() {
  std::vector<WqFormat> all;
  for (const int64_t bits : {4, 8}) {
    for (const DataType scales : {DataType::f32, DataType::bf16, DataType::f16}) {
      for (const WqZeros zeros : {WqZeros::none, WqZeros::integers, WqZeros::reals}) {
        all.push_back({.bits = bits, .group = 32, .scales = scales, .zeros = zeros});
      }
    }
  }
  return all;
}

// Runs check(source) for two formats with groups, K and N around the sizes of runs and panels.
template <typename Check>
void for_wq_sizes(std::mt19937& random, const Check& check) {
  for (WqFormat format : {WqFormat{.bits = 4}, WqFormat{.bits = 8, .zeros = WqZeros::integers}}) {
    for (const int64_t group : {8, 24, 64, 0}) {
      for (const int64_t K : {1, 3, 7, 8, 24, 64, 192, 576}) {
        format.group = group == 0 ? K : group;
        if (K % format.group != 0) {
          continue;
        }
        for (const int64_t N : some_of<int64_t>({1, 31, 32, 33, 100}, 3)) {
          check(WqSource(random, format, N, K));
        }
      }
    }
  }
}

}  // namespace cpuaccel::kernels
