#include "guarded.h"
#include "kernels/edge_stats/edge_stats.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "kernel_rows.h"
#include "spmm_case.h"
#include "threads.h"

namespace cpuaccel::kernels {
namespace {

class EdgeStatsTest : public testing::TestWithParam<KernelRow<EdgeStatsFunction>> {};

INSTANTIATE_TEST_SUITE_P(Rows, EdgeStatsTest, testing::ValuesIn(usable_rows(edge_stats_kernels())),
                         RowName());

// Small whole numbers, so that many messages are equal, and some are 0.
GuardedVector<double> few_numbers(int64_t count, std::mt19937& random) {
  GuardedVector<double> numbers;
  for (int64_t i = 0; i < count; ++i) {
    numbers.push_back(std::uniform_int_distribution<int>(-2, 2)(random));
  }
  return numbers;
}

enum class Wanted : uint8_t { all, smallest, largest };

struct Case {
  Case(const GuardedVector<int64_t>& lengths, int64_t columns, DataType of, bool wide, bool shifted,
       Wanted wanted, int64_t features, std::mt19937& random)
      : matrix(lengths, columns, wide, random),
        K(features),
        src(of, few_numbers(columns * K, random)),
        shift(of, few_numbers(matrix.M * K, random)),
        grad_src(of, columns * K),
        grad_shift(of, matrix.M * K) {
    for (size_t i = 0; i < 6; ++i) {
      stats.emplace_back(of, matrix.M * K);
      grads.emplace_back(of, few_numbers(matrix.M * K, random));
    }
    call.csr = matrix.csr();
    call.K = K;
    call.type = of;
    call.src = src.bytes.data();
    call.shift = shifted ? shift.bytes.data() : nullptr;
    const auto at = [&](size_t i) { return stats[i].bytes.data(); };
    if (wanted == Wanted::all) {
      call.stats.mean = at(0);
      call.stats.var = at(1);
    }
    if (wanted != Wanted::largest) {
      call.stats.smallest = at(2);
      call.stats.ties_smallest = at(4);
    }
    if (wanted != Wanted::smallest) {
      call.stats.largest = at(3);
      call.stats.ties_largest = at(5);
    }
    call.grad_mean = wanted == Wanted::all ? grads[0].bytes.data() : nullptr;
    call.grad_var = wanted == Wanted::all ? grads[1].bytes.data() : nullptr;
    call.grad_smallest = call.stats.smallest != nullptr ? grads[2].bytes.data() : nullptr;
    call.grad_largest = call.stats.largest != nullptr ? grads[3].bytes.data() : nullptr;
    call.grad_src = grad_src.bytes.data();
    call.grad_shift = shifted ? grad_shift.bytes.data() : nullptr;
  }
  void run(EdgeStatsFunction* function) {
    std::ranges::fill(grad_src.bytes, std::byte{});
    ASSERT_EQ(edge_stats(call, function), CsrFault::none);
    ASSERT_EQ(edge_stats_gradient(call, function), CsrFault::none);
  }
  double message(size_t e, int64_t m, int64_t k) const {
    return src.get(matrix.col[e] * K + k) + (call.shift != nullptr ? shift.get(m * K + k) : 0);
  }

  RandomCsr matrix;
  int64_t K;
  Elements src, shift, grad_src, grad_shift;
  std::vector<Elements> stats, grads;
  EdgeStatsCall call;
};

void check(const Case& found) {
  const auto& a = found.matrix;
  const auto& call = found.call;
  GuardedVector<double> of_src(static_cast<size_t>(a.N * found.K));
  for (int64_t m = 0; m < a.M; ++m) {
    const auto begin = static_cast<size_t>(a.crow[static_cast<size_t>(m)]);
    const auto end = static_cast<size_t>(a.crow[static_cast<size_t>(m) + 1]);
    const auto count = static_cast<double>(std::max<size_t>(1, end - begin));
    for (int64_t k = 0; k < found.K; ++k) {
      const int64_t at = m * found.K + k;
      double sum = 0, squares = 0, least = begin < end ? 1e9 : 0, most = begin < end ? -1e9 : 0;
      for (size_t e = begin; e < end; ++e) {
        const double t = found.message(e, m, k);
        sum += t;
        squares += t * t;
        least = std::min(least, t);
        most = std::max(most, t);
      }
      const double mean = sum / count;
      double ties_least = 0, ties_most = 0;
      for (size_t e = begin; e < end; ++e) {
        ties_least += found.message(e, m, k) == least ? 1 : 0;
        ties_most += found.message(e, m, k) == most ? 1 : 0;
      }
      if (call.stats.mean != nullptr) {
        ASSERT_NEAR(found.stats[0].get(at), mean, 1e-5);
        ASSERT_NEAR(found.stats[1].get(at), squares / count - mean * mean, 1e-4);
      }
      if (call.stats.smallest != nullptr) {
        ASSERT_EQ(found.stats[2].get(at), least);
        ASSERT_EQ(found.stats[4].get(at), ties_least);
      }
      if (call.stats.largest != nullptr) {
        ASSERT_EQ(found.stats[3].get(at), most);
        ASSERT_EQ(found.stats[5].get(at), ties_most);
      }
      const auto given = [&](const void* asked, size_t i) {
        return asked != nullptr ? found.grads[i].get(at) : 0.0;
      };
      const double of_least = given(call.grad_smallest, 2) / (ties_least + (least == 0 ? 1 : 0));
      const double of_most = given(call.grad_largest, 3) / (ties_most + (most == 0 ? 1 : 0));
      double total = 0;
      for (size_t e = begin; e < end; ++e) {
        const double t = found.message(e, m, k);
        const double one =
            (given(call.grad_mean, 0) + 2 * given(call.grad_var, 1) * (t - mean)) / count +
            (t == least && call.grad_smallest != nullptr ? of_least : 0) +
            (t == most && call.grad_largest != nullptr ? of_most : 0);
        of_src[static_cast<size_t>(a.col[e] * found.K + k)] += one;
        total += one;
      }
      if (call.grad_shift != nullptr) {
        ASSERT_NEAR(found.grad_shift.get(at), total, 1e-4) << "row " << m << " column " << k;
      }
    }
  }
  for (size_t i = 0; i < of_src.size(); ++i) {
    ASSERT_NEAR(found.grad_src.get(static_cast<int64_t>(i)), of_src[i], 1e-3) << "src " << i;
  }
}

TEST_P(EdgeStatsTest, EveryWidth) {
  std::mt19937 random(1);
  for (const Wanted wanted : {Wanted::all, Wanted::smallest, Wanted::largest}) {
    for (const DataType type : {DataType::f32, DataType::f64}) {
      for (int64_t K = 1; K <= 150; K = K < 40 ? K + 1 : K + 13) {
        Case each({2, 0, 0, 7, 1, 30}, 9, type, K % 2 == 0, K % 3 != 0, wanted, K, random);
        each.run(GetParam().function);
        check(each);
      }
    }
  }
}

TEST_P(EdgeStatsTest, SameBitsOnAnyNumberOfThreads) {
  std::mt19937 random(2);
  Case serial({5000, 1, 0, 3000, 20}, 50, DataType::f32, false, true, Wanted::all, 70, random);
  serial.run(GetParam().function);
  const auto of_src = serial.grad_src.bytes, of_shift = serial.grad_shift.bytes;
  const auto means = serial.stats[0].bytes;
  for (int count = 2; count <= 4; ++count) {
    const Threads threads(count);
    serial.run(GetParam().function);
    EXPECT_EQ(serial.grad_src.bytes, of_src);
    EXPECT_EQ(serial.grad_shift.bytes, of_shift);
    EXPECT_EQ(serial.stats[0].bytes, means);
  }
}

TEST_P(EdgeStatsTest, NanWinsAndTiesWithNothing) {
  std::mt19937 random(3);
  Case each({3, 2}, 4, DataType::f32, false, false, Wanted::all, 20, random);
  const int64_t place = each.matrix.col[1] * 20 + 17;
  each.src.set(place, std::nan(""));
  each.run(GetParam().function);
  EXPECT_TRUE(std::isnan(each.stats[2].get(17)));
  EXPECT_TRUE(std::isnan(each.stats[3].get(17)));
  EXPECT_EQ(each.stats[4].get(17), 0);
  EXPECT_EQ(each.stats[5].get(17), 0);
  EXPECT_FALSE(std::isnan(each.stats[3].get(16)));
}

TEST_P(EdgeStatsTest, EqualMessagesHaveNoVariance) {
  std::mt19937 random(4);
  Case each({7, 1}, 1, DataType::f32, true, true, Wanted::all, 33, random);
  for (int64_t k = 0; k < 33; ++k) {
    each.src.set(k, 1000.1 + static_cast<double>(k));
  }
  each.run(GetParam().function);
  for (int64_t i = 0; i < 66; ++i) {
    EXPECT_EQ(each.stats[1].get(i), 0);
  }
}

TEST_P(EdgeStatsTest, ColumnsOutOfRangeAreFound) {
  std::mt19937 random(5);
  Case each({3, 2}, 4, DataType::f32, true, false, Wanted::largest, 20, random);
  for (const int64_t bad : {-1, 4}) {
    each.matrix.col[3] = bad;
    EXPECT_EQ(edge_stats(each.call, GetParam().function), CsrFault::col);
    EXPECT_EQ(edge_stats_gradient(each.call, GetParam().function), CsrFault::col);
  }
}

TEST(EdgeStatsList, EndsInRef) { EXPECT_EQ(edge_stats_kernels().back().isa, Isa::ref); }

}  // namespace
}  // namespace cpuaccel::kernels
