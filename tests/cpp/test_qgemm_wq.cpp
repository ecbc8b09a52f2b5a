#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "emulated.h"
#include "guarded.h"
#include "kernel_rows.h"
#include "kernels/gemm/half.h"
#include "kernels/qgemm_wq/qgemm_wq.h"
#include "threads.h"
#include "wq_source.h"

namespace cpuaccel::kernels {
namespace {

class QgemmWqTest : public testing::TestWithParam<KernelRow<QgemmWqFunction>> {};

INSTANTIATE_TEST_SUITE_P(Rows, QgemmWqTest, testing::ValuesIn(usable_rows(qgemm_wq_kernels())),
                         RowName());

struct Rows {
  GuardedVector<int8_t> values;
  GuardedVector<float> scales;
  GuardedVector<int32_t> zero_points;

  // `extreme`: each byte is -128 or 127.
  Rows(std::mt19937& random, int64_t M, int64_t K, bool extreme) {
    std::uniform_int_distribution<int> byte(-128, 127);
    std::uniform_real_distribution<float> scale(0.01f, 1.0f);
    for (int64_t i = 0; i < M * K; ++i) {
      const int value = byte(random);
      values.push_back(static_cast<int8_t>(!extreme ? value : value < -100 ? 127 : -128));
    }
    for (int64_t m = 0; m < M; ++m) {
      scales.push_back(scale(random));
      zero_points.push_back(byte(random));
    }
  }
};

void check(std::mt19937& random, const WqSource& source, int64_t M, QgemmWqFunction* row,
           DataType type = DataType::f32, bool extreme = false) {
  const int64_t N = source.N, K = source.K, dst_stride = N + 1;
  const Rows rows(random, M, K, extreme);
  const WqWeights weights = source.packed();
  GuardedVector<uint8_t> dst(index(M * dst_stride * data_type_size(type)));
  GuardedVector<float> bias(index(N), 0.5f);
  const bool whole = M % 2 == 0;
  qgemm_wq({.weights = &weights,
            .M = M,
            .src = rows.values.data(),
            .scales = rows.scales.data(),
            .zero_points = whole ? rows.zero_points.data() : nullptr,
            .dst = {.data = dst.data(), .type = type, .stride = dst_stride},
            .bias = whole ? bias.data() : nullptr},
           row);
  const double own = type == DataType::f32 ? 0x1p-23 : type == DataType::bf16 ? 0x1p-8 : 0x1p-10;
  for (int64_t m = 0; m < M; ++m) {
    const int zero_point = whole ? rows.zero_points[index(m)] : 0;
    const double scale = static_cast<double>(rows.scales[index(m)]);
    for (int64_t n = 0; n < N; ++n) {
      double expected = 0.0, terms = 0.0;
      for (int64_t k = 0; k < K; ++k) {
        const int x = rows.values[index(m * K + k)];
        const WqSource::Term term = source.at(k, n);
        expected += (x - zero_point) * term.weight * scale;
        terms += (std::abs(x) + std::abs(zero_point)) * term.error_unit * scale;
      }
      expected += whole ? 0.5 : 0.0;
      const double allowed = static_cast<double>(2 * source.groups + 6) * 0x1p-24 * terms +
                             own * std::abs(expected) + 1e-7;
      ASSERT_NEAR(static_cast<double>(element_to_float(dst.data(), type, m * dst_stride + n)),
                  expected, allowed)
          << M << "x" << N << "x" << K << " at " << m << ", " << n << ", bits "
          << source.format.bits << ", group " << source.format.group;
    }
  }
}

TEST_P(QgemmWqTest, EveryFormat) {
  std::mt19937 random(1);
  for (const WqFormat& format : wq_formats()) {
    for (const int64_t M : {1, 2, 7, 20}) {
      check(random, WqSource(random, format, 70, 96), M, GetParam().function);
    }
  }
}

TEST_P(QgemmWqTest, AllSizes) {
  std::mt19937 random(2);
  for_wq_sizes(random, [&](const WqSource& source) {
    for (const int64_t M : some_of<int64_t>({1, 3, 4, 5, 13, 8, 2, 9}, 2)) {
      check(random, source, M, GetParam().function);
    }
  });
}

TEST_P(QgemmWqTest, EveryTypeOfResult) {
  std::mt19937 random(3);
  for (const DataType type : {DataType::f32, DataType::bf16, DataType::f16}) {
    check(random, WqSource(random, {.group = 16}, 45, 80), 6, GetParam().function, type);
  }
}

// The largest sums that partial sums of 16 bits, the bits of an f32 (256 k) and sums of 32 bits
// have to hold.
TEST_P(QgemmWqTest, LargestSums) {
  std::mt19937 random(4);
  const auto with = [&](int64_t bits, int64_t K, int8_t code) {
    WqSource source(random, {.bits = bits, .group = K}, 3, K);
    std::ranges::fill(source.codes, code);
    check(random, source, 1, GetParam().function, DataType::f32, true);
    check(random, source, 5, GetParam().function, DataType::f32, true);
  };
  for (const int64_t K : {int64_t{64}, 2 * kWqIntegers + 40}) {
    with(4, K, 15);
    with(8, K, 127);
  }
  with(8, 256, -128);
}

TEST_P(QgemmWqTest, NothingToAddOrToDo) {
  std::mt19937 random(5);
  check(random, WqSource(random, {}, 20, 0), 4, GetParam().function);
  check(random, WqSource(random, {}, 20, 64), 0, GetParam().function);
  check(random, WqSource(random, {}, 0, 64), 4, GetParam().function);
}

TEST_P(QgemmWqTest, ThreadsGiveTheSameBits) {
  std::mt19937 random(6);
  const WqSource source(random, {}, 300, 512);
  const WqWeights weights = source.packed();
  for (const int64_t M : {1, 40}) {
    const Rows rows(random, M, 512, false);
    std::vector<float> results[2];
    for (const int threads : {1, 5}) {
      const Threads count(threads);
      GuardedVector<float> dst(index(M * 300));
      qgemm_wq({.weights = &weights,
                .M = M,
                .src = rows.values.data(),
                .scales = rows.scales.data(),
                .zero_points = rows.zero_points.data(),
                .dst = {.data = dst.data(), .stride = 300}},
               GetParam().function);
      results[threads == 1 ? 0 : 1].assign(dst.begin(), dst.end());
    }
    EXPECT_EQ(results[0], results[1]);
  }
}

TEST_P(QgemmWqTest, AppliesTheFunctionAndOperandsOfDst) {
  std::mt19937 random(11);
  const WqSource source(random, {}, 70, 64);
  const WqWeights weights = source.packed();
  for (const DataType type : {DataType::f32, DataType::bf16}) {
    for (const int64_t M : {1, 11}) {
      const Rows rows(random, M, 64, false);
      check_dst(random, M, 70, type, [&](const WqDst& dst) {
        qgemm_wq({.weights = &weights,
                  .M = M,
                  .src = rows.values.data(),
                  .scales = rows.scales.data(),
                  .zero_points = rows.zero_points.data(),
                  .dst = dst},
                 GetParam().function);
      });
    }
  }
}

TEST(QgemmWqList, EndsInRef) { EXPECT_EQ(qgemm_wq_kernels().back().isa, Isa::ref); }

}  // namespace
}  // namespace cpuaccel::kernels
