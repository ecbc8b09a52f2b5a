#include <gtest/gtest.h>

#include "guarded.h"
#include "kernels/spmm/arg_grad.h"
#include "spmm_case.h"
#include "threads.h"

namespace cpuaccel::kernels {
namespace {

struct Case {
  Case(const GuardedVector<int64_t>& lengths, int64_t N, int64_t columns, DataType of, bool wide,
       std::mt19937& random)
      : matrix(lengths, N, wide, random),
        K(columns),
        type(of),
        values(of, normal_numbers(matrix.nnz(), random)),
        src(of, normal_numbers(N * K, random)),
        grad(of, normal_numbers(matrix.M * K, random)) {
    for (int64_t m = 0; m < matrix.M; ++m) {
      const int64_t begin = matrix.crow[static_cast<size_t>(m)];
      const int64_t end = matrix.crow[static_cast<size_t>(m) + 1];
      for (int64_t k = 0; k < K; ++k) {
        const bool none = begin == end || random() % 9 == 0;
        arg.push_back(none ? matrix.nnz()
                           : std::uniform_int_distribution<int64_t>(begin, end - 1)(random));
      }
    }
  }
  struct Result {
    ArgGradFault fault;
    Elements values, src;
  };
  Result run(bool ones = false) {
    narrow_arg.assign(arg.begin(), arg.end());
    Result result{ArgGradFault::none, Elements(type, matrix.nnz()), Elements(type, matrix.N * K)};
    ArgGradCall call{.csr = matrix.csr(), .K = K, .type = type};
    call.values = ones ? nullptr : values.bytes.data();
    call.src = src.bytes.data();
    call.grad = grad.bytes.data();
    call.arg = matrix.wide ? static_cast<void*>(arg.data()) : narrow_arg.data();
    call.grad_values = result.values.bytes.data();
    call.grad_src = result.src.bytes.data();
    result.fault = spmm_arg_grad(call);
    return result;
  }

  RandomCsr matrix;
  int64_t K;
  DataType type;
  Elements values, src, grad;
  GuardedVector<int64_t> arg;
  GuardedVector<int32_t> narrow_arg;
};

void check(Case& item, bool ones) {
  const auto got = item.run(ones);
  ASSERT_EQ(got.fault, ArgGradFault::none);
  const auto count = static_cast<size_t>(item.matrix.N * item.K);
  GuardedVector<double> src(count), src_size(count);
  GuardedVector<double> values(static_cast<size_t>(item.matrix.nnz())), values_size = values;
  for (int64_t at = 0; at < item.matrix.M * item.K; ++at) {
    const int64_t e = item.arg[static_cast<size_t>(at)];
    if (e == item.matrix.nnz()) {
      continue;
    }
    const int64_t n = item.matrix.col[static_cast<size_t>(e)] * item.K + at % item.K;
    const double of_value = item.src.get(n) * item.grad.get(at);
    const double of_src = (ones ? 1.0 : item.values.get(e)) * item.grad.get(at);
    values[static_cast<size_t>(e)] += of_value;
    values_size[static_cast<size_t>(e)] += std::abs(of_value);
    src[static_cast<size_t>(n)] += of_src;
    src_size[static_cast<size_t>(n)] += std::abs(of_src);
  }
  const auto compare = [&](const Elements& result, const auto& expected, const auto& sizes) {
    for (size_t i = 0; i < expected.size(); ++i) {
      const double bound = 100 * result.sum_rounding() * sizes[i] +
                           1.01 * result.rounding() * std::abs(expected[i]) + 1e-7;
      ASSERT_LE(std::abs(result.get(static_cast<int64_t>(i)) - expected[i]), bound) << i;
    }
  };
  compare(got.values, values, values_size);
  compare(got.src, src, src_size);
}

TEST(SpmmArgGrad, AgainstPlainLoops) {
  std::mt19937 random(1);
  for (const DataType type : {DataType::f32, DataType::f64, DataType::bf16, DataType::f16}) {
    for (const bool wide : {false, true}) {
      for (const int64_t K : {1, 5, 16, 37}) {
        Case item({4, 0, 1, 60, 3}, 9, K, type, wide, random);
        check(item, false);
        check(item, true);
      }
    }
  }
}

TEST(SpmmArgGrad, SameBitsOnAnyNumberOfThreads) {
  std::mt19937 random(2);
  Case item(GuardedVector<int64_t>(1500, 6), 20, 70, DataType::f32, true, random);
  const auto serial = item.run();
  for (int count = 2; count <= 4; ++count) {
    const Threads threads(count);
    const auto parallel = item.run();
    EXPECT_EQ(serial.values.bytes, parallel.values.bytes);
    EXPECT_EQ(serial.src.bytes, parallel.src.bytes);
  }
}

// With few columns, threads split the rows.
TEST(SpmmArgGrad, SameBitsForFewColumns) {
  std::mt19937 random(4);
  for (const DataType type : {DataType::f32, DataType::bf16}) {
    Case item(GuardedVector<int64_t>(9000, 6), 21, 5, type, false, random);
    const auto serial = item.run();
    check(item, true);
    for (const int count : {2, 3, 7}) {
      const Threads threads(count);
      EXPECT_EQ(serial.src.bytes, item.run().src.bytes);
    }
  }
}

TEST(SpmmArgGrad, BadIndices) {
  std::mt19937 random(3);
  for (const bool wide : {false, true}) {
    for (const int64_t e : {int64_t{-1}, int64_t{2}, int64_t{9}, int64_t{INT32_MIN}}) {
      Case item({2, 3, 3}, 5, 3, DataType::f32, wide, random);
      item.arg[0] = e;  // of row 0, which has entries 0 and 1
      EXPECT_EQ(item.run().fault, ArgGradFault::arg);
    }
    Case item({2, 3, 3}, 5, 3, DataType::f32, wide, random);
    item.arg[0] = 1;
    item.matrix.col[1] = item.matrix.narrow_col[1] = 5;
    EXPECT_EQ(item.run().fault, ArgGradFault::col);
    item.matrix.crow[1] = item.matrix.narrow_crow[1] = 9;
    EXPECT_EQ(item.run().fault, ArgGradFault::crow);
  }
}

}  // namespace
}  // namespace cpuaccel::kernels
