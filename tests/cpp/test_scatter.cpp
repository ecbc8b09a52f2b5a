#include "guarded.h"
#include "kernels/scatter/scatter.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "kernel_rows.h"
#include "kernels/scatter/reduce.h"
#include "spmm_case.h"
#include "threads.h"

namespace cpuaccel::kernels {
namespace {

class ScatterTest : public testing::TestWithParam<KernelRow<ScatterFunction>> {};

INSTANTIATE_TEST_SUITE_P(Rows, ScatterTest, testing::ValuesIn(usable_rows(scatter_kernels())),
                         RowName());

struct Index {
  Index(int64_t E, int64_t N, bool is_wide, std::mt19937& random)
      : wide(is_wide), numbers(static_cast<size_t>(E)) {
    for (auto& number : numbers) {
      number = std::uniform_int_distribution<int64_t>(0, N - 1)(random);
    }
    narrow.assign(numbers.begin(), numbers.end());
  }
  void set(size_t e, int64_t number) {
    numbers[e] = number;
    narrow[e] = static_cast<int32_t>(number);
  }
  const void* data() const {
    return wide ? static_cast<const void*>(numbers.data()) : narrow.data();
  }
  int64_t size() const { return static_cast<int64_t>(numbers.size()); }

  bool wide;
  GuardedVector<int64_t> numbers;
  GuardedVector<int32_t> narrow;
};

// A gap follows each row, except the last one; no access past it is allowed.
struct Case {
  Case(DataType type, int64_t E, int64_t rows, int64_t columns, bool wide, std::mt19937& random)
      : N(rows),
        K(columns),
        index(E, rows, wide, random),
        src(type, normal_numbers((E - 1) * (K + 1) + K, random)),
        dst(type == DataType::f64 ? type : DataType::f32,
            normal_numbers((N - 1) * (K + 2) + K, random)),
        value(dst) {}

  ScatterCall call() {
    return {.op = op,
            .E = index.size(),
            .N = N,
            .K = K,
            .index = index.data(),
            .wide = index.wide,
            .type = src.type,
            .src = src.bytes.data(),
            .src_stride = K + 1,
            .dst = dst.bytes.data(),
            .dst_stride = K + 2,
            .value = value.bytes.data(),
            .nan_ties = nan_ties};
  }
  double taken(double before, double x, double of_value) const {
    switch (op) {
      case ScatterOp::product:
        return before * x;
      case ScatterOp::amax:
        return x > before || std::isnan(x) ? x : before;
      case ScatterOp::amin:
        return x < before || std::isnan(x) ? x : before;
      case ScatterOp::ties:
        return before + (x == of_value || (nan_ties == 1 && std::isnan(x)) ? 1 : 0);
      default:
        return before + x;
    }
  }
  Elements expected() const {
    Elements result = dst;
    for (int64_t e = 0; e < index.size(); ++e) {
      const int64_t row = index.numbers[static_cast<size_t>(e)];
      for (int64_t k = 0; row >= 0 && row < N && k < K; ++k) {
        const int64_t at = row * (K + 2) + k;
        result.set(at, taken(result.get(at), src.get(e * (K + 1) + k), value.get(at)));
      }
    }
    return result;
  }

  int64_t N, K;
  Index index;
  Elements src, dst, value;
  ScatterOp op = ScatterOp::sum;
  int nan_ties = 0;
};

constexpr std::array kOps{ScatterOp::sum, ScatterOp::product, ScatterOp::amax, ScatterOp::amin,
                          ScatterOp::ties};

TEST_P(ScatterTest, ThePlainLoopsBitsForEveryWidth) {
  std::mt19937 random(1);
  for (const DataType type : {DataType::f32, DataType::f64, DataType::bf16, DataType::f16}) {
    for (int64_t K = 1; K <= 300; K = K < 70 ? K + 1 : K + 7) {
      for (const ScatterOp op : kOps) {
        const bool half = type == DataType::bf16 || type == DataType::f16;
        if ((K > 70 && op != ScatterOp::sum && K % 3 != 0) || (half && op == ScatterOp::ties)) {
          continue;
        }
        Case a(type, 100, 1 + K % 30, K, K % 2 == 0, random);
        a.op = op;
        a.nan_ties = static_cast<int>(K % 2);
        // Some elements equal a value, some are NaN.
        for (int64_t k = 0; k < K; k += 2) {
          const int64_t row = a.index.numbers[3];
          a.src.set(3 * (K + 1) + k, a.value.get(row * (K + 2) + k));
          a.src.set(7 * (K + 1) + k, std::numeric_limits<double>::quiet_NaN());
        }
        const Elements expected = a.expected();
        scatter(a.call(), GetParam().function);
        ASSERT_EQ(a.dst.bytes, expected.bytes) << "K " << K << ", op " << static_cast<int>(op);
      }
    }
  }
}

TEST_P(ScatterTest, TheSameOnAnyNumberOfThreads) {
  std::mt19937 random(2);
  for (const int64_t K : {1, 3, 5, 20, 40, 200}) {
    // The last N has more rows than the caches near a core hold, for each thread if rows are wide.
    for (const int64_t N :
         {int64_t{1}, int64_t{2}, int64_t{3}, std::min<int64_t>(70000, 1400000 / K)}) {
      // Enough entries for five threads.
      Case a(DataType::f32, 200000 / K, N, K, true, random);
      const Elements before = a.dst;
      for (int count = 1; count <= 5; ++count) {
        a.op = kOps[static_cast<size_t>(count) % kOps.size()];
        a.dst = before;
        const Elements expected = a.expected();
        const Threads threads(count);
        scatter(a.call(), GetParam().function);
        ASSERT_EQ(a.dst.bytes, expected.bytes) << K << " columns, " << N << " rows, " << count;
      }
    }
  }
}

TEST_P(ScatterTest, NumbersOutOfRangeArePassedOver) {
  std::mt19937 random(3);
  for (const bool wide : {false, true}) {
    for (const int64_t K : {1, 3, 33}) {
      for (int count = 1; count <= 3; ++count) {
        Case a(DataType::f32, 90000, 1000, K, wide, random);
        a.index.set(0, -1);
        a.index.set(7, 1000);
        a.index.set(89999, wide ? INT64_MIN : INT32_MIN);
        a.index.set(50000, wide ? INT64_MAX : INT32_MAX);
        const Elements expected = a.expected();
        const Threads threads(count);
        scatter(a.call(), GetParam().function);
        ASSERT_EQ(a.dst.bytes, expected.bytes);
      }
    }
  }
}

// Entries with rows this long are sorted, unless one row gets most of them or an index is invalid.
TEST_P(ScatterTest, LongRowsInAnyOrder) {
  std::mt19937 random(7);
  enum class Names { evenly, one_mostly, none_once };
  for (const DataType type : {DataType::f32, DataType::f64, DataType::bf16, DataType::f16}) {
    for (const int64_t K : {128, 150, 301}) {
      for (const Names names : {Names::evenly, Names::one_mostly, Names::none_once}) {
        Case a(type, 2000, 600, K, K % 2 == 0, random);
        for (size_t e = 0; e < 1900 && names == Names::one_mostly; ++e) {
          a.index.set(e, 77);
        }
        if (names == Names::none_once) {
          a.index.set(5, -1);
        }
        const Elements before = a.dst;
        for (int i = 0; i < static_cast<int>(kOps.size()); ++i) {
          a.op = kOps[static_cast<size_t>(i)];
          a.dst = before;
          if (a.op == ScatterOp::ties && type != DataType::f32 && type != DataType::f64) {
            continue;
          }
          a.src.set(3 * (K + 1) + K - 1, std::numeric_limits<double>::quiet_NaN());
          const Elements expected = a.expected();
          const Threads threads(1 + i % 3);
          scatter(a.call(), GetParam().function);
          ASSERT_EQ(a.dst.bytes, expected.bytes) << K << " columns, op " << i;
        }
      }
    }
  }
}

TEST_P(ScatterTest, NothingToDo) {
  for (const auto& [E, N, K] : {std::array<int64_t, 3>{0, 3, 3}, {3, 0, 3}, {3, 3, 0}}) {
    ScatterCall call;
    call.E = E;
    call.N = N;
    call.K = K;
    scatter(call, GetParam().function);
  }
}

// The expected scatter_reduce of `a`. Only rows that the index names are changed; they are even.
Elements reduced(const Case& a, bool mean, bool include) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  GuardedVector<int64_t> named(static_cast<size_t>(a.N));
  for (const int64_t n : a.index.numbers) {
    if (n >= 0) {
      ++named[static_cast<size_t>(n)];
    }
  }
  const auto for_each_named = [&](const auto& body) {
    for (int64_t n = 0; n < a.N; ++n) {
      for (int64_t k = 0; k < a.K && named[static_cast<size_t>(n)] > 0; ++k) {
        body(n * (a.K + 2) + k, named[static_cast<size_t>(n)]);
      }
    }
  };
  Case b = a;
  if (!include) {
    for_each_named([&](int64_t at, int64_t /*count*/) {
      b.dst.set(at, a.op == ScatterOp::sum ? 0 : a.op == ScatterOp::amax ? -kInfinity : kInfinity);
    });
  }
  Elements result = b.expected();
  if (mean) {
    for_each_named([&](int64_t at, int64_t count) {
      result.set(at, result.get(at) / static_cast<double>(count + (include ? 1 : 0)));
    });
  }
  return result;
}

TEST(ScatterReduce, WithAndWithoutDst) {
  std::mt19937 random(5);
  // With the second K rows are so long that entries are sorted.
  for (const int64_t K : {3, 300}) {
    for (const DataType type : {DataType::f32, DataType::f64}) {
      for (const bool include : {false, true}) {
        for (const auto& [op, mean] : {std::pair{ScatterOp::sum, false},
                                       {ScatterOp::sum, true},
                                       {ScatterOp::amax, false},
                                       {ScatterOp::amin, false}}) {
          for (int count = 1; count <= 3; ++count) {
            // In one case there are enough entries for several threads to count.
            const bool many = count == 3 && type == DataType::f32 && mean && K == 3;
            Case a(type, many ? 140000 : 900, 300, K, count == 2, random);
            a.op = op;
            for (size_t e = 0; e < a.index.numbers.size(); ++e) {
              a.index.set(e, a.index.numbers[e] / 2 * 2);
            }
            if (K == 3) {
              a.index.set(11, -1);
            }
            const Elements expected = reduced(a, mean, include);
            const Threads threads(count);
            scatter_reduce(a.call(), mean, include);
            ASSERT_EQ(a.dst.bytes, expected.bytes) << K << static_cast<int>(op) << mean << include;
          }
        }
      }
    }
  }
}

TEST(ScatterReduce, NamedRowsAreFilled) {
  std::mt19937 random(6);
  Case a(DataType::f32, 2, 4, 3, true, random);
  a.index.set(0, 2);
  a.index.set(1, 7);
  Elements expected = a.dst;
  for (int64_t k = 0; k < 3; ++k) {
    expected.set(2 * 5 + k, 1.5);
  }
  fill_named_rows(a.call(), 1.5);
  EXPECT_EQ(a.dst.bytes, expected.bytes);
}

TEST(ScatterIndex, Within) {
  std::mt19937 random(4);
  for (const bool wide : {false, true}) {
    for (const int64_t size : {1, 5, 100000}) {
      for (int count = 1; count <= 3; ++count) {
        Index index(size, 9, wide, random);
        const Threads threads(count);
        const auto within = [&](int64_t low, int64_t high) {
          return index_within(index.data(), wide, size, low, high);
        };
        EXPECT_TRUE(within(0, 9));
        EXPECT_TRUE(within(-9, 9));
        index.set(static_cast<size_t>(size) - 1, 9);
        EXPECT_FALSE(within(0, 9));
        EXPECT_TRUE(within(0, 10));
        index.set(static_cast<size_t>(size) - 1, -9);
        EXPECT_FALSE(within(0, 9));
        EXPECT_TRUE(within(-9, 9));
        index.set(static_cast<size_t>(size) - 1, wide ? INT64_MIN : INT32_MIN);
        EXPECT_FALSE(within(-9, 9));
        EXPECT_FALSE(within(-(int64_t{1} << 30), int64_t{1} << 30));
        index.set(static_cast<size_t>(size) - 1, wide ? INT64_MAX : INT32_MAX);
        EXPECT_FALSE(within(-9, 9));
        EXPECT_FALSE(within(0, 0));
        EXPECT_FALSE(within(-(int64_t{1} << 30), int64_t{1} << 30));
        EXPECT_EQ(within(-(int64_t{1} << 31), int64_t{1} << 31), !wide);
        EXPECT_EQ(within(0, INT64_MAX), !wide);
      }
    }
  }
  EXPECT_TRUE(index_within(nullptr, true, 0, 0, 0));
}

TEST(ScatterList, EndsInRef) { EXPECT_EQ(scatter_kernels().back().isa, Isa::ref); }

}  // namespace
}  // namespace cpuaccel::kernels
