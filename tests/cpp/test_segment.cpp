#include "guarded.h"
#include "kernels/segment/segment.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "kernel_rows.h"
#include "spmm_case.h"
#include "threads.h"

namespace cpuaccel::kernels {
namespace {

class SegmentTest : public testing::TestWithParam<KernelRow<SegmentFunction>> {};

INSTANTIATE_TEST_SUITE_P(Rows, SegmentTest, testing::ValuesIn(usable_rows(segment_kernels())),
                         RowName());

constexpr std::array kReductions{Reduce::sum, Reduce::mean, Reduce::amax, Reduce::amin};

// A gap follows each row of src, except the last.
struct Case {
  Case(DataType of, const GuardedVector<int64_t>& lengths, int64_t columns, std::mt19937& random)
      : K(columns), offsets{0}, src(of, 0), dst(of, static_cast<int64_t>(lengths.size()) * K) {
    for (const int64_t length : lengths) {
      offsets.push_back(offsets.back() + length);
    }
    src = Elements(of, normal_numbers(std::max<int64_t>(0, offsets.back() * (K + 3) - 3), random));
  }

  SegmentCall call() {
    return {.E = offsets.back(),
            .N = static_cast<int64_t>(offsets.size()) - 1,
            .K = K,
            .offsets = offsets.data(),
            .type = src.type,
            .reduce = reduce,
            .start = start,
            .empty = empty,
            .src = src.bytes.data(),
            .src_stride = K + 3,
            .dst = dst.bytes.data()};
  }
  void check() const {
    const double eps = src.type == DataType::f64 ? 3e-16 : 1.2e-7;
    for (size_t n = 0; n + 1 < offsets.size(); ++n) {
      const int64_t begin = offsets[n], end = offsets[n + 1];
      for (int64_t k = 0; k < K; ++k) {
        double result = begin < end ? start : empty, sizes = std::abs(start);
        for (int64_t e = begin; e < end; ++e) {
          const double x = src.get(e * (K + 3) + k);
          sizes += std::abs(x);
          if (reduce == Reduce::sum || reduce == Reduce::mean) {
            result += x;
          } else if (std::isnan(x) || (reduce == Reduce::amax ? x > result : x < result)) {
            result = x;
          }
        }
        const bool divided = reduce == Reduce::mean && begin < end;
        const double divisor = divided ? static_cast<double>(end - begin) : 1;
        const double bound = reduce == Reduce::sum || divided
                                 ? static_cast<double>(end - begin + 2) * eps * sizes / divisor
                                 : 0;
        const double got = dst.get(static_cast<int64_t>(n) * K + k), expected = result / divisor;
        ASSERT_TRUE(std::abs(got - expected) <= bound || got == expected ||
                    (std::isnan(got) && std::isnan(expected)))
            << got << " for " << expected << ", segment " << n << ", column " << k << " of " << K;
      }
    }
  }

  int64_t K;
  Reduce reduce = Reduce::sum;
  double start = 0, empty = -7;
  GuardedVector<int64_t> offsets;
  Elements src, dst;
};

TEST_P(SegmentTest, EveryWidth) {
  std::mt19937 random(1);
  for (const DataType type : {DataType::f32, DataType::f64}) {
    for (const Reduce reduce : kReductions) {
      for (int64_t K = 1; K <= 150; K = K < 40 ? K + 1 : K + 7) {
        Case a(type, {3, 0, 1, 17, 0, 2}, K, random);
        a.reduce = reduce;
        a.start = reduce == Reduce::amax ? -0.25 : 0.25;
        a.src.set(K + 3 + K - 1, std::numeric_limits<double>::quiet_NaN());
        segment(a.call(), GetParam().function);
        a.check();
      }
    }
  }
}

TEST_P(SegmentTest, LongSegmentsAndTheSameOnAnyNumberOfThreads) {
  std::mt19937 random(2);
  for (const Reduce reduce : kReductions) {
    for (const int64_t K : {1, 5, 40}) {
      GuardedVector<int64_t> lengths(3000, 2);
      lengths[0] = 20000;
      lengths[1234] = 9000;
      lengths[2999] = 30000;
      Case a(DataType::f32, lengths, K, random);
      a.reduce = reduce;
      a.start = 0.5;
      GuardedVector<uint8_t> first;
      for (int count = 1; count <= 4; ++count) {
        const Threads threads(count);
        ASSERT_TRUE(segment(a.call(), GetParam().function));
        a.check();
        const GuardedVector<uint8_t> found(
            reinterpret_cast<const uint8_t*>(a.dst.bytes.data()),
            reinterpret_cast<const uint8_t*>(a.dst.bytes.data()) + a.dst.bytes.size());
        ASSERT_TRUE(first.empty() || first == found) << count << " threads";
        first = found;
      }
    }
  }
}

TEST_P(SegmentTest, BadOffsetsAndNothingToDo) {
  std::mt19937 random(3);
  Case a(DataType::f32, {2, 3}, 4, random);
  for (const auto& offsets : {GuardedVector<int64_t>{0, 3, 2}, {1, 2, 5}, {0, 6, 5}, {0, 2, 4}}) {
    auto call = a.call();
    call.E = 5;
    call.offsets = offsets.data();
    EXPECT_FALSE(segment(call, GetParam().function));
  }
  const GuardedVector<int64_t> none{0};
  SegmentCall call;
  call.K = 4;
  call.offsets = none.data();
  EXPECT_TRUE(segment(call, GetParam().function));
  Case b(DataType::f32, {0, 0}, 4, random);
  EXPECT_TRUE(segment(b.call(), GetParam().function));
  b.check();
}

// segment() runs few columns in plain loops: short segments, long ones, and NaN in either.
TEST(SegmentFewColumns, EveryReductionAndLength) {
  std::mt19937 random(4);
  for (const DataType type : {DataType::f32, DataType::f64}) {
    for (const Reduce reduce : kReductions) {
      for (int64_t K = 1; K <= 3; ++K) {
        Case a(type, {3, 0, 1, 32, 33, 34, 20000, 35, 36, 0, 40, 2}, K, random);
        a.reduce = reduce;
        a.start = reduce == Reduce::amax ? -0.25 : 0.25;
        for (const int64_t row : {1, 45, 20170}) {
          a.src.set(row * (K + 3) + K - 1, std::numeric_limits<double>::quiet_NaN());
        }
        ASSERT_TRUE(segment(a.call()));
        a.check();
      }
    }
  }
}

TEST(SegmentList, EndsInRef) { EXPECT_EQ(segment_kernels().back().isa, Isa::ref); }

}  // namespace
}  // namespace cpuaccel::kernels
