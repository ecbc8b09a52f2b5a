#include <gtest/gtest.h>

#include "guarded.h"
#include "kernel_rows.h"
#include "spmm_case.h"
#include "threads.h"

namespace cpuaccel::kernels {
namespace {

class SpmmTest : public testing::TestWithParam<KernelRow<SpmmFunction>> {};

INSTANTIATE_TEST_SUITE_P(Rows, SpmmTest, testing::ValuesIn(usable_rows(spmm_kernels())), RowName());

constexpr DataType kTypes[] = {DataType::f32, DataType::f64, DataType::bf16, DataType::f16};
constexpr Reduce kReductions[] = {Reduce::sum, Reduce::mean, Reduce::amax, Reduce::amin};

struct Result {
  CsrFault fault;
  Elements dst;
  GuardedVector<int64_t> arg;
  bool operator==(const Result& other) const {
    return dst.bytes == other.dst.bytes && arg == other.arg;
  }
};

Result run(const RandomCsr& a, const Elements* values, const Elements& src, int64_t K,
           int64_t stride, Reduce reduce, bool with_arg, SpmmFunction* function) {
  const auto count = static_cast<size_t>(a.M * K);
  Result result{CsrFault::none, Elements(src.type, a.M * K), {}};
  GuardedVector<int32_t> narrow(with_arg && !a.wide ? count : 0, -7);
  result.arg.assign(with_arg ? count : 0, -7);
  SpmmCall call;
  call.csr = a.csr();
  call.K = K;
  call.type = src.type;
  call.reduce = reduce;
  call.values = values != nullptr ? values->bytes.data() : nullptr;
  call.wide_values = values != nullptr && values->type != src.type;
  call.src = src.bytes.data();
  call.src_stride = stride;
  call.dst = result.dst.bytes.data();
  if (with_arg) {
    call.arg = a.wide ? static_cast<void*>(result.arg.data()) : narrow.data();
  }
  result.fault = spmm(call, function);
  if (with_arg && !a.wide) {
    result.arg.assign(narrow.begin(), narrow.end());
  }
  return result;
}

void check(const RandomCsr& a, const Elements* values, const Elements& src, int64_t K,
           int64_t stride, Reduce reduce, SpmmFunction* function) {
  SCOPED_TRACE(testing::Message() << "type " << static_cast<int>(src.type) << " reduce "
                                  << static_cast<int>(reduce) << " K " << K << " wide " << a.wide
                                  << " values " << (values != nullptr));
  const bool sums = reduce == Reduce::sum || reduce == Reduce::mean;
  const Result result = run(a, values, src, K, stride, reduce, !sums, function);
  ASSERT_EQ(result.fault, CsrFault::none);
  if (!sums) {
    const Result alone = run(a, values, src, K, stride, reduce, false, function);
    for (int64_t i = 0; i < a.M * K; ++i) {
      // Equal, except for the sign of a zero.
      const double number = alone.dst.get(i), same = result.dst.get(i);
      ASSERT_TRUE(number == same || (std::isnan(number) && std::isnan(same))) << i;
    }
  }
  for (int64_t m = 0; m < a.M; ++m) {
    const auto row = static_cast<size_t>(m);
    const auto entries = static_cast<double>(a.crow[row + 1] - a.crow[row]);
    for (int64_t k = 0; k < K; ++k) {
      const auto expected = spmm_expected(a, values, src, stride, reduce, m, k);
      const double got = result.dst.get(m * K + k);
      if (std::isnan(expected.value) || std::isinf(expected.value)) {
        ASSERT_TRUE(std::isnan(expected.value) ? std::isnan(got) : got == expected.value)
            << m << ", " << k << ": " << got << " for " << expected.value;
      } else {
        const double bound = (entries + 2) * src.sum_rounding() * expected.size +
                             1.01 * src.rounding() * std::abs(expected.value) + 1e-7;
        ASSERT_LE(std::abs(got - expected.value), bound) << m << ", " << k;
      }
      if (!sums) {
        ASSERT_EQ(result.arg[static_cast<size_t>(m * K + k)], expected.arg) << m << ", " << k;
      }
    }
  }
}

// All types, reductions and index types, with and without values, for `K` columns of wider rows.
void check_all(const GuardedVector<int64_t>& lengths, int64_t N, int64_t K,
               SpmmFunction* function) {
  std::mt19937 random(static_cast<unsigned>(K));
  for (const DataType type : kTypes) {
    for (const bool wide : {false, true}) {
      const RandomCsr a(lengths, N, wide, random);
      const int64_t stride = K + 3;
      const Elements values(type, normal_numbers(a.nnz(), random));
      // Memory ends with the last row's columns, so that reads past them are detected.
      const Elements src(type, normal_numbers((N - 1) * stride + K, random));
      for (const Reduce reduce : kReductions) {
        check(a, &values, src, K, stride, reduce, function);
        check(a, nullptr, src, K, stride, reduce, function);
      }
    }
  }
}

TEST_P(SpmmTest, EveryNumberOfColumns) {
  for (int64_t K = 1; K <= 40; ++K) {
    check_all({3, 0, 1, 9, 0, 0, 4, 2}, 11, K, GetParam().function);
  }
  for (const int64_t K : {63, 64, 65, 100, 128, 129, 200, 256, 271}) {
    check_all({3, 0, 1, 9, 4}, 5, K, GetParam().function);
  }
}

TEST_P(SpmmTest, LongRows) {
  check_all({0, 30000, 2, 0, 8193, 8192, 1, 20000, 0}, 50, 1, GetParam().function);
  check_all({5, 2500, 513, 0, 512, 3}, 50, 600, GetParam().function);
}

TEST_P(SpmmTest, ManyShortRows) {
  GuardedVector<int64_t> lengths(70000);
  for (size_t i = 0; i < lengths.size(); ++i) {
    lengths[i] = static_cast<int64_t>(i * 7 % 5);
  }
  std::mt19937 random(5);
  const RandomCsr a(lengths, 1000, true, random);
  const Elements src(DataType::f32, normal_numbers(1000 * 3, random));
  for (const Reduce reduce : kReductions) {
    check(a, nullptr, src, 3, 3, reduce, GetParam().function);
  }
}

TEST_P(SpmmTest, NanAndInfinity) {
  std::mt19937 random(6);
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const double special[] = {std::nan(""), kInfinity, -kInfinity, 0.0, -0.0, 1.0, 1.0, 2.0};
  for (const DataType type : kTypes) {
    for (const int64_t K : {1, 5, 8, 16, 33, 600}) {
      const RandomCsr a({1, 2, 3, 6, 0, 2000, 9}, 60, true, random);
      GuardedVector<double> numbers(static_cast<size_t>(60 * K));
      for (auto& number : numbers) {
        number = random() % 16 < 8 ? special[random() % 8] : -kInfinity;
      }
      const Elements src(type, numbers);
      for (const Reduce reduce : {Reduce::amax, Reduce::amin}) {
        check(a, nullptr, src, K, K, reduce, GetParam().function);
      }
    }
  }
}

TEST_P(SpmmTest, FloatValuesForHalves) {
  std::mt19937 random(7);
  for (const DataType type : {DataType::bf16, DataType::f16}) {
    const RandomCsr a({4, 0, 700, 12}, 30, false, random);
    const Elements values(DataType::f32, normal_numbers(a.nnz(), random));
    const Elements src(type, normal_numbers(30 * 21, random));
    check(a, &values, src, 21, 21, Reduce::sum, GetParam().function);
  }
}

TEST_P(SpmmTest, BadIndices) {
  std::mt19937 random(8);
  for (const bool wide : {false, true}) {
    for (const int64_t K : {1, 20, 600}) {
      const RandomCsr good({3, 2000, 5, 0}, 10, wide, random);
      const Elements src(DataType::f32, normal_numbers(10 * K, random));
      const auto fault = [&](const RandomCsr& a) {
        return run(a, nullptr, src, K, K, Reduce::sum, false, GetParam().function).fault;
      };
      EXPECT_EQ(fault(good), CsrFault::none);
      for (const int64_t column : {int64_t{-1}, int64_t{10}, int64_t{INT32_MIN}, INT64_MAX}) {
        for (const size_t at : {size_t{0}, size_t{1000}, good.col.size() - 1}) {
          RandomCsr bad = good;
          bad.col[at] = column;
          bad.narrow_col[at] = static_cast<int32_t>(column);
          EXPECT_EQ(fault(bad), CsrFault::col) << column;
        }
      }
      for (size_t at = 0; at <= 4; ++at) {
        for (const int64_t value : {int64_t{-1}, int64_t{1}, int64_t{2009}, INT64_MAX, INT64_MIN}) {
          RandomCsr bad = good;
          bad.crow[at] = value;
          bad.narrow_crow[at] = static_cast<int32_t>(value);
          if (!wide && value == INT64_MIN) {
            continue;  // 0 as an int32
          }
          // One of the changes leaves crow ascending, which gives another valid matrix.
          const auto expected = at == 1 && value == 1 ? CsrFault::none : CsrFault::crow;
          EXPECT_EQ(fault(bad), expected) << at << " " << value;
        }
      }
    }
  }
}

TEST_P(SpmmTest, NothingAtAll) {
  std::mt19937 random(9);
  const Elements none(DataType::f32, 0), some(DataType::f32, normal_numbers(12, random));
  for (const Reduce reduce : kReductions) {
    check(RandomCsr({}, 4, true, random), nullptr, some, 3, 3, reduce, GetParam().function);
    check(RandomCsr({0, 0}, 4, true, random), nullptr, some, 3, 3, reduce, GetParam().function);
    check(RandomCsr({0, 0}, 0, true, random), nullptr, none, 3, 3, reduce, GetParam().function);
    check(RandomCsr({2, 1}, 4, true, random), nullptr, none, 0, 0, reduce, GetParam().function);
  }
}

TEST_P(SpmmTest, SameBitsOnAnyNumberOfThreads) {
  std::mt19937 random(10);
  GuardedVector<int64_t> lengths(3000, 11);
  lengths[7] = 50000;
  lengths[2900] = 9000;
  const RandomCsr a(lengths, 400, true, random);
  const Elements values(DataType::f32, normal_numbers(a.nnz(), random));
  for (const int64_t K : {1, 20}) {
    const Elements src(DataType::f32, normal_numbers(400 * K, random));
    for (const Reduce reduce : kReductions) {
      const bool with_arg = reduce == Reduce::amax;
      const auto call = [&] {
        return run(a, &values, src, K, K, reduce, with_arg, GetParam().function);
      };
      const Result serial = call();
      for (int threads = 2; threads <= 4; ++threads) {
        const Threads some(threads);
        EXPECT_EQ(call(), serial);
      }
    }
  }
}

TEST(SpmmList, EndsInRef) { EXPECT_EQ(spmm_kernels().back().isa, Isa::ref); }

}  // namespace
}  // namespace cpuaccel::kernels
