// Test case of qgemm: a random product, and the check of its result against sums in 64 bits.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <utility>
#include <vector>

#include "conv_case.h"
#include "exact_activation.h"
#include "guarded.h"
#include "kernels/qgemm/qgemm.h"

namespace cpuaccel::kernels {

struct QgemmShape {
  int64_t M = 1, N = 1, K = 1;
};

constexpr QgemmSrcType kQgemmSources[] = {
    QgemmSrcType::u8,
    QgemmSrcType::s8,
    QgemmSrcType::f32_to_u8,
    QgemmSrcType::f32_to_s8,
    QgemmSrcType::f32_rows_to_u8,
    QgemmSrcType::f32_rows_to_s8,
};
constexpr DataType kQgemmResults[] = {DataType::s32, DataType::f32, DataType::bf16, DataType::u8,
                                      DataType::s8};

class QgemmCase {
 public:
  QgemmCase(std::mt19937& random, const QgemmShape& shape, QgemmSrcType src, DataType dst)
      : shape_(shape), src_type_(src), dst_type_(dst) {
    const auto pick = [&](int low, int high) {
      return std::uniform_int_distribution<int>(low, high)(random);
    };
    const auto uniform = [&](float low, float high) {
      return std::uniform_real_distribution<float>(low, high)(random);
    };
    const auto [M, N, K] = shape;
    src_stride_ = K + pick(0, 1) * pick(1, 20);
    dst_stride_ = N + pick(0, 1) * pick(1, 20);
    weights_ = random_bytes<int8_t>(random, K * N);
    set_sources(random, pick, uniform);
    const float typical = 255.0f * 60.0f * std::sqrt(static_cast<float>(K) + 1.0f);
    for (int64_t n = 0; n < N; ++n) {
      scales_.push_back(uniform(0.5f, 2.0f) * 100.0f / typical);
      bias_.push_back(uniform(-40.0f, 40.0f));
    }
    call_.dst.activation =
        kActivations[static_cast<size_t>(pick(0, static_cast<int>(kActivations.size()) - 1))];
    if (call_.dst.activation != Activation::none) {
      call_.dst.inverse_scale = is_real() ? 1.0f : uniform(0.5f, 2.0f);
      for (float& scale : scales_) {
        scale *= 0.05f;  // where post-ops are not linear
      }
    }
    call_.dst.zero_point = pick(0, 255);
    if (pick(0, 3) == 0) {
      call_.dst.min = static_cast<uint8_t>(call_.dst.zero_point);
      call_.dst.max = static_cast<uint8_t>(std::min(255, call_.dst.zero_point + 60));
    }
    call_.dst.scales = scales_.data();
    call_.dst.bias = pick(0, 4) == 0 ? nullptr : bias_.data();
    call_.dst.type = dst;
    call_.dst.row_stride = dst_stride_;
    const int64_t rows = M > 0 ? (M - 1) * dst_stride_ + N : 0;
    dst_.assign(static_cast<size_t>(rows) * dst_size() + 2 * kGuard, kUntouched);
    call_.dst.data = dst_.data() + kGuard;
    call_.M = M;
  }

  QgemmCase(const QgemmCase&) = delete;
  QgemmCase& operator=(const QgemmCase&) = delete;

  QgemmCall& call() { return call_; }
  const GuardedVector<uint8_t>& result() const { return dst_; }

  // Packs the weights, multiplies with a row and checks. `k_first` selects the strides of the
  // weights.
  void run(QgemmFunction* row, bool k_first = true) {
    const auto [M, N, K] = shape_;
    GuardedVector<int8_t> plain(weights_.size());
    QgemmPlain given{plain.data(), K, N, k_first ? N : 1, k_first ? 1 : K};
    for (int64_t k = 0; k < K; ++k) {
      for (int64_t n = 0; n < N; ++n) {
        plain[static_cast<size_t>(k * given.k_stride + n * given.n_stride)] = weight(k, n);
      }
    }
    const auto packed = qgemm_pack(given, row);
    ASSERT_EQ(packed.bytes, qgemm_packed_bytes(K, N, row));
    GuardedVector<int8_t> unpacked(weights_.size());
    qgemm_unpack(packed, unpacked.data(), given.k_stride, given.n_stride);
    ASSERT_EQ(unpacked, plain);
    call_.weights = &packed;
    ASSERT_EQ(qgemm(call_), nullptr);
    call_.weights = nullptr;
    check();
  }

  void check() const {
    const auto [M, N, K] = shape_;
    for (size_t i = 0; i < kGuard; ++i) {
      ASSERT_EQ(dst_[i], kUntouched) << "wrote before the destination";
      ASSERT_EQ(dst_[dst_.size() - 1 - i], kUntouched) << "wrote past the destination";
    }
    for (int64_t m = 0; m < M; ++m) {
      for (int64_t n = 0; n < N; ++n) {
        const int* row = bytes_.data() + m * K;
        const int8_t* column = weights_.data() + n * K;
        int64_t acc = 0;
        for (int64_t k = 0; k < K; ++k) {
          acc += row[k] * column[k];
        }
        check_element(m, n, acc);
      }
      const auto size = static_cast<int64_t>(dst_size());
      for (int64_t i = N * size; m + 1 < M && i < dst_stride_ * size; ++i) {
        ASSERT_EQ(at(m, 0)[i], kUntouched) << "wrote past row " << m;
      }
    }
  }

 private:
  static constexpr size_t kGuard = 64;
  static constexpr uint8_t kUntouched = 0xa5;

  bool is_real() const { return dst_type_ == DataType::f32 || dst_type_ == DataType::bf16; }
  size_t dst_size() const {
    return dst_type_ == DataType::bf16                              ? 2
           : dst_type_ == DataType::u8 || dst_type_ == DataType::s8 ? 1
                                                                    : 4;
  }
  const uint8_t* at(int64_t m, int64_t n) const {
    return dst_.data() + kGuard + static_cast<size_t>(m * dst_stride_ + n) * dst_size();
  }
  template <typename T>
  T got(int64_t m, int64_t n) const {
    T value;
    std::memcpy(&value, at(m, n), sizeof(value));
    return value;
  }
  int8_t weight(int64_t k, int64_t n) const {
    return weights_[static_cast<size_t>(n * shape_.K + k)];
  }

  template <typename Pick, typename Uniform>
  void set_sources(std::mt19937& random, const Pick& pick, const Uniform& uniform) {
    const auto [M, N, K] = shape_;
    const int64_t count = M * src_stride_;
    const bool is_s8 = src_type_ == QgemmSrcType::s8 || src_type_ == QgemmSrcType::f32_to_s8 ||
                       src_type_ == QgemmSrcType::f32_rows_to_s8;
    const int low = is_s8 ? -128 : 0, high = is_s8 ? 127 : 255;
    QgemmSrc& src = call_.src;
    src.type = src_type_;
    src.row_stride = src_stride_;
    src.zero_point = pick(low, high);
    src.scale = uniform(0.01f, 0.1f);
    bytes_.resize(static_cast<size_t>(M * K));
    row_scales_.assign(static_cast<size_t>(M), 1.0f);
    if (src_type_ == QgemmSrcType::u8 || src_type_ == QgemmSrcType::s8) {
      byte_src_ = random_bytes<uint8_t>(random, count);
      src.data = byte_src_.data();
      const bool own_points = pick(0, 1) == 1, own_scales = pick(0, 1) == 1;
      for (int64_t m = 0; m < M; ++m) {
        zero_points_.push_back(own_points ? pick(low, high) : src.zero_point);
        if (own_scales) {
          row_scales_[static_cast<size_t>(m)] = uniform(0.5f, 2.0f);
        }
      }
      src.zero_points = own_points ? zero_points_.data() : nullptr;
      src.scales = own_scales ? row_scales_.data() : nullptr;
    } else {
      for (int64_t i = 0; i < count; ++i) {
        float_src_.push_back(uniform(-3.0f, 4.0f));
      }
      src.data = float_src_.data();
      for (int64_t m = 0; m < M; ++m) {
        zero_points_.push_back(quantize_row(m, low, high));
      }
    }
    for (int64_t m = 0; m < M; ++m) {
      for (int64_t k = 0; k < K; ++k) {
        const auto from = static_cast<size_t>(m * src_stride_ + k);
        const int byte = is_s8 ? static_cast<int8_t>(byte_src_[from]) : byte_src_[from];
        bytes_[static_cast<size_t>(m * K + k)] = byte - zero_points_[static_cast<size_t>(m)];
      }
    }
  }

  // The formulas of qgemm.h; returns the zero point.
  int quantize_row(int64_t m, int low, int high) {
    const auto begin = static_cast<size_t>(m * src_stride_);
    float scale = call_.src.scale, least = 0.0f, largest = 0.0f;
    int zero_point = call_.src.zero_point;
    for (size_t k = 0; k < static_cast<size_t>(shape_.K); ++k) {
      least = std::min(least, float_src_[begin + k]);
      largest = std::max(largest, float_src_[begin + k]);
    }
    if (src_type_ == QgemmSrcType::f32_rows_to_s8) {
      scale = std::max({-least, largest, 0x1p-96f}) / 127.0f;
      zero_point = 0;
    } else if (src_type_ == QgemmSrcType::f32_rows_to_u8) {
      scale = std::max(largest / 255.0f - least / 255.0f, 0x1p-96f);
      const float inverse_scale = 1.0f / scale;
      zero_point = std::clamp(static_cast<int>(std::nearbyint(-least * inverse_scale)), 0, 255);
    }
    if (src_type_ == QgemmSrcType::f32_rows_to_s8 || src_type_ == QgemmSrcType::f32_rows_to_u8) {
      row_scales_[static_cast<size_t>(m)] = scale;
    }
    const float inverse_scale = 1.0f / scale;
    byte_src_.resize(float_src_.size());
    for (size_t k = 0; k < static_cast<size_t>(shape_.K); ++k) {
      const float value =
          std::fma(float_src_[begin + k], inverse_scale, static_cast<float>(zero_point));
      byte_src_[begin + k] =
          static_cast<uint8_t>(std::clamp(static_cast<int>(std::nearbyint(value)), low, high));
    }
    return zero_point;
  }

  int quantized(double real) const {
    const QgemmDst& dst = call_.dst;
    const double rounded =
        std::nearbyint(real * static_cast<double>(dst.inverse_scale)) + dst.zero_point;
    return static_cast<int>(std::clamp<double>(rounded, dst.min, dst.max));
  }

  void check_element(int64_t m, int64_t n, int64_t acc) const {
    const auto where = [&] { return testing::PrintToString(std::pair(m, n)); };
    if (dst_type_ == DataType::s32) {
      ASSERT_EQ(got<int32_t>(m, n), static_cast<int32_t>(static_cast<uint64_t>(acc))) << where();
      return;
    }
    const auto column = static_cast<size_t>(n);
    const float scaled = static_cast<float>(acc) * row_scales_[static_cast<size_t>(m)];
    const float bias = call_.dst.bias != nullptr ? bias_[column] : 0.0f;
    const auto sum = static_cast<double>(std::fma(scaled, scales_[column], bias));
    const double real = exact_activation(call_.dst.activation, sum);
    const double error = activation_error(call_.dst.activation, sum);
    switch (dst_type_) {
      case DataType::f32:
        ASSERT_NEAR(static_cast<double>(got<float>(m, n)), real, error) << where();
        break;
      case DataType::bf16: {
        const uint32_t bits = uint32_t{got<uint16_t>(m, n)} << 16;
        float value;
        std::memcpy(&value, &bits, sizeof(value));
        ASSERT_NEAR(static_cast<double>(value), real, error + std::ldexp(std::abs(real), -8))
            << where();
        break;
      }
      default: {
        const int result = dst_type_ == DataType::u8 ? got<uint8_t>(m, n) : got<int8_t>(m, n) + 128;
        ASSERT_GE(result, quantized(real - error)) << where();
        ASSERT_LE(result, quantized(real + error)) << where();
      }
    }
  }

  QgemmShape shape_;
  QgemmSrcType src_type_;
  DataType dst_type_;
  int64_t src_stride_ = 0, dst_stride_ = 0;
  GuardedVector<int8_t> weights_;  // column by column
  GuardedVector<uint8_t> byte_src_;
  GuardedVector<float> float_src_, row_scales_, scales_, bias_;
  GuardedVector<int32_t> zero_points_;
  std::vector<int> bytes_;  // of src, minus zero points
  GuardedVector<uint8_t> dst_;
  QgemmCall call_;
};

}  // namespace cpuaccel::kernels
