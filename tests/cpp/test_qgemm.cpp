#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "guarded.h"
#include "kernel_rows.h"
#include "kernels/qgemm/kernels.h"
#include "kernels/qgemm/qgemm.h"
#include "qgemm_case.h"
#include "threads.h"

namespace cpuaccel::kernels {
namespace {

using Row = KernelRow<QgemmFunction>;
class QgemmTest : public testing::TestWithParam<Row> {};

INSTANTIATE_TEST_SUITE_P(Rows, QgemmTest, testing::ValuesIn(usable_rows(qgemm_kernels())),
                         RowName());

std::string name_of(const QgemmShape& shape) {
  return "M" + std::to_string(shape.M) + " N" + std::to_string(shape.N) + " K" +
         std::to_string(shape.K);
}

TEST_P(QgemmTest, EverySourceAndResult) {
  std::mt19937 random(1);
  for (const QgemmSrcType src : kQgemmSources) {
    for (const DataType dst : kQgemmResults) {
      for (const QgemmShape& shape : {QgemmShape{1, 13, 30}, {5, 24, 64}, {21, 50, 33}}) {
        SCOPED_TRACE(testing::Message() << name_of(shape) << " from " << static_cast<int>(src)
                                        << " to " << static_cast<int>(dst));
        QgemmCase(random, shape, src, dst).run(GetParam().function);
      }
    }
  }
}

TEST_P(QgemmTest, AllSizesOfTilesAndTails) {
  std::mt19937 random(2);
  const int64_t nr = GetParam().function().nr;
  for (int64_t M = 1; M <= 17; ++M) {
    for (const int64_t N : {int64_t{1}, nr - 1, nr, nr + 1, 2 * nr + 5}) {
      for (const int64_t K : {1, 4, 7, 8, 9, 16, 23, 40}) {
        const QgemmShape shape{M, N, K};
        SCOPED_TRACE(name_of(shape));
        QgemmCase(random, shape, QgemmSrcType::u8, DataType::s32).run(GetParam().function);
      }
    }
  }
}

TEST_P(QgemmTest, RandomShapes) {
  std::mt19937 random(3);
  const auto pick = [&](int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random);
  };
  for (int i = 0; i < 500; ++i) {
    const QgemmShape shape{pick(1, 40), pick(1, 40), pick(1, 40)};
    const auto src = static_cast<size_t>(pick(0, 5)), dst = static_cast<size_t>(pick(0, 4));
    SCOPED_TRACE(testing::Message() << name_of(shape) << " from " << src << " to " << dst);
    QgemmCase(random, shape, kQgemmSources[src], kQgemmResults[dst])
        .run(GetParam().function, pick(0, 1) == 0);
  }
}

TEST_P(QgemmTest, BlocksOfKOfRowsAndOfColumns) {
  std::mt19937 random(4);
  // K in blocks; the same K for one tile of rows, which takes it at once; rows in blocks.
  for (const QgemmShape& shape :
       {QgemmShape{19, 100, 5001}, {3, 30, 9000}, {300, 40, 70}, {70, 30, 11000}}) {
    SCOPED_TRACE(name_of(shape));
    QgemmCase(random, shape, QgemmSrcType::u8, DataType::s32).run(GetParam().function);
    QgemmCase(random, shape, QgemmSrcType::s8, DataType::f32).run(GetParam().function, false);
  }
}

// Large enough to be split over all threads: by rows, by columns and by both.
TEST_P(QgemmTest, ThreadsShareTheWork) {
  std::mt19937 random(5);
  const auto bytes = [&](int64_t count) {
    GuardedVector<uint32_t> values(static_cast<size_t>(count / 4 + 1));
    std::ranges::generate(values, random);
    return values;
  };
  for (const QgemmShape& shape : {QgemmShape{7, 1700, 3000},
                                  {1, 2500, 2000},
                                  {500, 20, 1500},
                                  {700, 300, 64},
                                  {65, 9, 9000}}) {
    const auto src = bytes(shape.M * shape.K), plain = bytes(shape.K * shape.N);
    const auto* first = reinterpret_cast<const uint8_t*>(src.data());
    const GuardedVector<float> floats(first, first + shape.M * shape.K);
    const auto* weights = reinterpret_cast<const int8_t*>(plain.data());
    const auto packed = qgemm_pack({weights, shape.K, shape.N, 1, shape.K}, GetParam().function);
    QgemmCall call;
    call.weights = &packed;
    call.M = shape.M;
    call.src.row_stride = shape.K;
    call.dst.row_stride = shape.N;
    call.dst.type = DataType::s32;
    for (const QgemmSrcType type : {QgemmSrcType::u8, QgemmSrcType::f32_rows_to_u8}) {
      call.src.type = type;
      call.src.data = type == QgemmSrcType::u8 ? static_cast<const void*>(src.data())
                                               : static_cast<const void*>(floats.data());
      GuardedVector<int32_t> expected(static_cast<size_t>(shape.M * shape.N));
      call.dst.data = expected.data();
      ASSERT_EQ(qgemm(call), nullptr);
      for (const int count : {2, 5, 16}) {
        const Threads threads(count);
        GuardedVector<int32_t> result(expected.size());
        call.dst.data = result.data();
        ASSERT_EQ(qgemm(call), nullptr);
        EXPECT_EQ(result, expected) << name_of(shape) << " on " << count;
      }
    }
  }
}

TEST_P(QgemmTest, NothingToAddOrToDo) {
  std::mt19937 random(6);
  for (const QgemmSrcType src : kQgemmSources) {
    for (const DataType dst : kQgemmResults) {
      for (const QgemmShape& shape : {QgemmShape{3, 20, 0}, {0, 5, 6}, {4, 0, 6}, {0, 0, 0}}) {
        SCOPED_TRACE(name_of(shape));
        QgemmCase(random, shape, src, dst).run(GetParam().function);
      }
    }
  }
}

TEST_P(QgemmTest, ExtremeValuesDoNotSaturate) {
  const int64_t K = 200, N = 30;
  for (const bool is_signed : {false, true}) {
    const int low = is_signed ? -128 : 0;
    for (const int source : {low, low + 255}) {
      for (const int weight : {-128, 127}) {
        for (const int64_t M : {1, 2, 7, 8}) {
          const GuardedVector<uint8_t> src(static_cast<size_t>(M * K),
                                           static_cast<uint8_t>(source));
          const GuardedVector<int8_t> weights(static_cast<size_t>(K * N),
                                              static_cast<int8_t>(weight));
          const auto packed = qgemm_pack({weights.data(), K, N, N, 1}, GetParam().function);
          GuardedVector<int32_t> dst(static_cast<size_t>(M * N));
          QgemmCall call;
          call.weights = &packed;
          call.M = M;
          call.src.data = src.data();
          call.src.type = is_signed ? QgemmSrcType::s8 : QgemmSrcType::u8;
          call.src.row_stride = K;
          call.src.zero_point = source == low ? low + 255 : low;
          call.dst.data = dst.data();
          call.dst.type = DataType::s32;
          call.dst.row_stride = N;
          ASSERT_EQ(qgemm(call), nullptr);
          const auto sum = static_cast<int32_t>((source - call.src.zero_point) * weight * K);
          EXPECT_EQ(dst, GuardedVector<int32_t>(dst.size(), sum)) << source << " times " << weight;
        }
      }
    }
  }
}

// Far outside of the range of bytes and of int32, and NaN.
TEST_P(QgemmTest, ResultsAreLimited) {
  const int64_t N = 5;
  const GuardedVector<int8_t> weights(static_cast<size_t>(N), 1);
  const auto packed = qgemm_pack({weights.data(), 1, N, N, 1}, GetParam().function);
  const uint8_t one = 1;
  const GuardedVector<float> scales(static_cast<size_t>(N), 1.0f);
  const float bias[] = {1e5f, -1e5f, 1e30f, -std::numeric_limits<float>::infinity(),
                        std::numeric_limits<float>::quiet_NaN()};
  uint8_t dst[5];
  QgemmCall call;
  call.weights = &packed;
  call.M = 1;
  call.src.data = &one;
  call.src.row_stride = 1;
  call.dst = {dst, DataType::u8, N, scales.data(), bias};
  call.dst.zero_point = 100;
  call.dst.min = 3;
  call.dst.max = 250;
  ASSERT_EQ(qgemm(call), nullptr);
  EXPECT_EQ(std::vector<int>(dst, dst + 5), (std::vector<int>{250, 3, 250, 3, 3}));
}

TEST_P(QgemmTest, RefusesSumsThatLeaveInt32) {
  const int64_t K = 70000;
  GuardedVector<int8_t> weights(static_cast<size_t>(K), 127);
  const GuardedVector<uint8_t> src(weights.size(), 255);
  const float scale = 1.0f;
  int32_t dst = 0;
  QgemmCall call;
  call.M = 1;
  call.src.data = src.data();
  call.src.row_stride = K;
  call.dst = {&dst, DataType::f32, 1, &scale, nullptr};
  const auto large = qgemm_pack({weights.data(), K, 1, 1, 1}, GetParam().function);
  EXPECT_EQ(large.magnitude, 255 * 127 * K);
  call.weights = &large;
  EXPECT_NE(qgemm_unsupported_reason(call), nullptr);
  EXPECT_NE(qgemm(call), nullptr);
  EXPECT_EQ(dst, 0);
  call.dst.type = DataType::s32;
  EXPECT_EQ(qgemm(call), nullptr);
  EXPECT_EQ(dst, static_cast<int32_t>(static_cast<uint32_t>(255 * 127 * K)));
  weights.assign(weights.size(), -100);
  const auto small = qgemm_pack({weights.data(), K, 1, 1, 1}, GetParam().function);
  call.weights = &small;
  call.dst.type = DataType::f32;
  EXPECT_EQ(qgemm(call), nullptr);
  float real;
  std::memcpy(&real, &dst, sizeof(real));
  EXPECT_EQ(real, static_cast<float>(-100 * 255 * K));
}

TEST_P(QgemmTest, WeightsOfAnyStrides) {
  const int64_t K = 21, N = 17;
  GuardedVector<int8_t> weights(static_cast<size_t>(6 * K * N));
  for (size_t i = 0; i < weights.size(); ++i) {
    weights[i] = static_cast<int8_t>(i * 37);
  }
  struct Strides {
    int64_t offset, k, n;
  };
  const int64_t last = 6 * K * N - 1;
  for (const auto& [offset, k_stride, n_stride] :
       {Strides{0, 3 * N, 2}, {0, 1, 2 * K}, {5, N + 3, 1}, {last, -1, -K}, {0, 0, 1}, {3, 2, 0}}) {
    const QgemmPlain plain{weights.data() + offset, K, N, k_stride, n_stride};
    GuardedVector<int8_t> expected, unpacked(static_cast<size_t>(K * N));
    for (int64_t k = 0; k < K; ++k) {
      for (int64_t n = 0; n < N; ++n) {
        expected.push_back(plain.data[k * k_stride + n * n_stride]);
      }
    }
    qgemm_unpack(qgemm_pack(plain, GetParam().function), unpacked.data(), N, 1);
    EXPECT_EQ(unpacked, expected) << k_stride << " and " << n_stride;
  }
}

TEST_P(QgemmTest, EpilogueSeesEveryResultOnce) {
  std::mt19937 random(7);
  for (const int count : {1, 3}) {
    const Threads threads(count);
    for (const QgemmShape& shape : {QgemmShape{40, 100, 2000}, {300, 40, 20}, {2, 1000, 2500}}) {
      const auto src = random_bytes<uint8_t>(random, shape.M * shape.K);
      const auto weights = random_bytes<int8_t>(random, shape.K * shape.N);
      const auto packed =
          qgemm_pack({weights.data(), shape.K, shape.N, shape.N, 1}, GetParam().function);
      const GuardedVector<float> scales(static_cast<size_t>(shape.N), 0.001f);
      GuardedVector<uint8_t> dst(static_cast<size_t>(shape.M * shape.N));
      std::vector<int> seen(dst.size());
      QgemmCall call;
      call.weights = &packed;
      call.M = shape.M;
      call.src.data = src.data();
      call.src.row_stride = shape.K;
      call.dst = {dst.data(), DataType::u8, shape.N, scales.data(), nullptr};
      call.epilogue.context = &seen;
      call.epilogue.run = [](const void* context, uint8_t* /*dst*/, int64_t offset,
                             int64_t length) {
        auto& counts = *static_cast<std::vector<int>*>(const_cast<void*>(context));
        for (int64_t i = offset; i < offset + length; ++i) {
          ++counts.at(static_cast<size_t>(i));
        }
      };
      ASSERT_EQ(qgemm(call), nullptr);
      EXPECT_EQ(seen, std::vector<int>(seen.size(), 1));
    }
  }
}

TEST(QgemmList, EndsInRef) { EXPECT_EQ(qgemm_kernels().back().isa, Isa::ref); }

}  // namespace
}  // namespace cpuaccel::kernels
