#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "guarded.h"
#include "kernel_rows.h"
#include "kernels/gemm/half.h"
#include "kernels/quantize_by_row/quantize_by_row.h"
#include "threads.h"

namespace cpuaccel::kernels {
namespace {

using Row = KernelRow<QuantizeByRowFunction>;
class QuantizeByRowTest : public testing::TestWithParam<Row> {};

INSTANTIATE_TEST_SUITE_P(Rows, QuantizeByRowTest,
                         testing::ValuesIn(usable_rows(quantize_by_row_kernels())), RowName());

constexpr DataType kTypes[] = {DataType::f32, DataType::bf16, DataType::f16};

// A source of M x K in the first bytes of its type, and its values.
struct Source {
  GuardedVector<float> floats;
  GuardedVector<uint16_t> halves;
  std::vector<float> values;

  Source(std::mt19937& random, DataType type, int64_t count, float scale) {
    std::normal_distribution<float> normal(0.1f, scale);
    for (int64_t i = 0; i < count; ++i) {
      const float value = normal(random);
      if (type == DataType::f32) {
        floats.push_back(value);
        values.push_back(value);
      } else {
        halves.push_back(type == DataType::bf16 ? float_to_bf16(value) : float_to_f16(value));
        values.push_back(element_to_float(halves.data(), type, i));
      }
    }
  }
  const void* data(DataType type) const {
    return type == DataType::f32 ? static_cast<const void*>(floats.data()) : halves.data();
  }
};

float rounded(DataType type, float value) {
  return type == DataType::bf16  ? bf16_to_float(float_to_bf16(value))
         : type == DataType::f16 ? f16_to_float(float_to_f16(value))
                                 : value;
}

struct Expected {
  float scale;
  int32_t zero_point;
};

// The formulas of the header.
Expected expected_of(const QuantizeByRow& call, const float* begin, const float* end) {
  float least = 0.0f, most = 0.0f;
  for (const float* x = begin; x != end; ++x) {
    least = std::min(least, *x);
    most = std::max(most, *x);
  }
  const auto steps = static_cast<float>(call.high - call.low);
  if (call.symmetric) {
    const float largest = std::max(-least, most);
    return {std::max(rounded(call.type, largest / (steps / 2)), 0x1p-23f), 0};
  }
  const float width = rounded(call.type, most - least);
  const float scale = std::max(rounded(call.type, width / steps), 0x1p-23f);
  const float zero_point =
      static_cast<float>(call.low) - std::nearbyint(rounded(call.type, least / scale));
  return {scale, std::clamp(static_cast<int32_t>(zero_point), call.low, call.high)};
}

TEST_P(QuantizeByRowTest, FollowsTheFormulas) {
  std::mt19937 random(1);
  for (const DataType type : kTypes) {
    for (const bool symmetric : {true, false}) {
      for (const RowScales mode : {RowScales::of_each_row, RowScales::of_all_rows}) {
        for (const int64_t K : {1, 7, 16, 127, 128, 129, 300}) {
          for (const float spread : {1e-9f, 0.01f, 3.0f, 1000.0f}) {
            const int64_t M = 3;
            const Source src(random, type, M * K, spread);
            GuardedVector<int8_t> dst(static_cast<size_t>(M * K));
            GuardedVector<float> scales(M);
            GuardedVector<int32_t> zero_points(M);
            QuantizeByRow call;
            call.src = src.data(type);
            call.type = type;
            call.M = M;
            call.K = call.row_stride = K;
            call.mode = mode;
            call.symmetric = symmetric;
            if (K % 2 == 0) {
              call.low = -64;
              call.high = 63;
            }
            call.dst = dst.data();
            call.scales = scales.data();
            call.zero_points = zero_points.data();
            quantize_by_row(call, GetParam().function);
            for (int64_t m = 0; m < M; ++m) {
              const bool all = mode == RowScales::of_all_rows;
              const float* row = src.values.data() + m * K;
              const Expected by =
                  all ? expected_of(call, src.values.data(), src.values.data() + M * K)
                      : expected_of(call, row, row + K);
              ASSERT_EQ(scales[static_cast<size_t>(m)], by.scale);
              ASSERT_EQ(zero_points[static_cast<size_t>(m)], by.zero_point);
              for (int64_t k = 0; k < K; ++k) {
                const float value =
                    std::nearbyint(row[k] * (1.0f / by.scale)) + static_cast<float>(by.zero_point);
                const float limited =
                    std::clamp(value, static_cast<float>(call.low), static_cast<float>(call.high));
                ASSERT_EQ(dst[static_cast<size_t>(m * K + k)], static_cast<int>(limited));
              }
            }
          }
        }
      }
    }
  }
}

// A scale below torchao's smallest, and a width that exceeds f32.
TEST_P(QuantizeByRowTest, TinyAndHugeRows) {
  const int64_t K = 40;
  for (const float largest : {1e-30f, 3e38f}) {
    GuardedVector<float> src(static_cast<size_t>(K));
    for (int64_t k = 0; k < K; ++k) {
      src[static_cast<size_t>(k)] =
          largest * (static_cast<float>(2 * k) / static_cast<float>(K - 1) - 1.0f);
    }
    GuardedVector<int8_t> dst(static_cast<size_t>(K));
    float scale = 0.0f;
    int32_t zero_point = 0;
    QuantizeByRow call;
    call.src = src.data();
    call.M = 1;
    call.K = call.row_stride = K;
    call.symmetric = false;
    call.smallest_scale = 0x1p-126f;
    call.dst = dst.data();
    call.scales = &scale;
    call.zero_points = &zero_point;
    quantize_by_row(call, GetParam().function);
    ASSERT_NEAR(scale, largest / 127.5f, largest * 1e-6f);
    for (int64_t k = 0; k < K; ++k) {
      const auto at = static_cast<size_t>(k);
      ASSERT_NEAR(static_cast<float>(dst[at] - zero_point) * scale, src[at], 0.501f * scale);
    }
  }
}

TEST_P(QuantizeByRowTest, GivenScalesAndStrides) {
  const int64_t M = 4, K = 20, stride = 33;
  GuardedVector<float> src(static_cast<size_t>(M * stride), 0.5f);
  const GuardedVector<float> given{0.5f, 0.25f, 0.125f, 1.0f};
  const GuardedVector<int32_t> given_zero_points{1, 2, 3, 4};
  GuardedVector<int8_t> dst(static_cast<size_t>(M * K));
  GuardedVector<float> scales(M);
  GuardedVector<int32_t> zero_points(M);
  QuantizeByRow call;
  call.src = src.data();
  call.M = M;
  call.K = K;
  call.row_stride = stride;
  call.mode = RowScales::given;
  call.given_scales = given.data();
  call.given_zero_points = given_zero_points.data();
  call.given = M;
  call.dst = dst.data();
  call.scales = scales.data();
  call.zero_points = zero_points.data();
  quantize_by_row(call, GetParam().function);
  EXPECT_EQ(scales, given);
  EXPECT_EQ(zero_points, given_zero_points);
  const int expected[] = {2, 4, 7, 4};  // 0.5 rounds to 0
  for (size_t i = 0; i < dst.size(); ++i) {
    ASSERT_EQ(dst[i], expected[i / K]);
  }
  const GuardedVector<int32_t> foreign{16384, -16385, std::numeric_limits<int32_t>::max(),
                                       std::numeric_limits<int32_t>::min()};
  call.given_zero_points = foreign.data();
  quantize_by_row(call, GetParam().function);
  const int limits[] = {127, -128, 127, -128};
  for (size_t i = 0; i < dst.size(); ++i) {
    ASSERT_EQ(dst[i], limits[i / K]);
  }
  src[0] = std::numeric_limits<float>::infinity();
  src[static_cast<size_t>(stride)] = std::numeric_limits<float>::quiet_NaN();
  call.given = 1;
  call.given_zero_points = nullptr;
  quantize_by_row(call, GetParam().function);
  EXPECT_EQ(dst[0], 127);
  EXPECT_EQ(scales[0], 0.5f);
  EXPECT_TRUE(std::isnan(scales[1]));
  EXPECT_EQ(scales[3], 0.5f);
}

TEST_P(QuantizeByRowTest, RowsThatAreNotFinite) {
  const int64_t M = 3, K = 150;
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
        -std::numeric_limits<float>::infinity()}) {
    for (const RowScales mode : {RowScales::of_each_row, RowScales::of_all_rows}) {
      for (int64_t at = 0; at < K; ++at) {
        GuardedVector<float> src(static_cast<size_t>(M * K), 1.0f);
        src[static_cast<size_t>(K + at)] = bad;
        GuardedVector<int8_t> dst(src.size(), 1);
        GuardedVector<float> scales(M);
        GuardedVector<int32_t> zero_points(M);
        QuantizeByRow call;
        call.src = src.data();
        call.M = M;
        call.K = call.row_stride = K;
        call.mode = mode;
        call.symmetric = false;
        call.dst = dst.data();
        call.scales = scales.data();
        call.zero_points = zero_points.data();
        quantize_by_row(call, GetParam().function);
        ASSERT_TRUE(std::isnan(scales[1])) << at;
        ASSERT_EQ(std::isnan(scales[0]), mode == RowScales::of_all_rows);
        ASSERT_EQ(dst[static_cast<size_t>(K + at)], 0);
      }
    }
  }
}

TEST_P(QuantizeByRowTest, ThreadsGiveTheSameBytes) {
  std::mt19937 random(2);
  const int64_t M = 90, K = 700;
  const Source src(random, DataType::f32, M * K, 2.0f);
  std::vector<int8_t> results[2];
  for (const int threads : {1, 5}) {
    const Threads count(threads);
    GuardedVector<int8_t> dst(static_cast<size_t>(M * K));
    GuardedVector<float> scales(M);
    GuardedVector<int32_t> zero_points(M);
    QuantizeByRow call;
    call.src = src.floats.data();
    call.M = M;
    call.K = call.row_stride = K;
    call.mode = RowScales::of_all_rows;
    call.dst = dst.data();
    call.scales = scales.data();
    call.zero_points = zero_points.data();
    quantize_by_row(call, GetParam().function);
    results[threads == 1 ? 0 : 1].assign(dst.begin(), dst.end());
  }
  EXPECT_EQ(results[0], results[1]);
}

TEST(QuantizeByRowList, EndsInRef) { EXPECT_EQ(quantize_by_row_kernels().back().isa, Isa::ref); }

}  // namespace
}  // namespace cpuaccel::kernels
