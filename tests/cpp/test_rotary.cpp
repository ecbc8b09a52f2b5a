#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>

#include "kernel_rows.h"
#include "kernels/rotary/rotary.h"
#include "typed_numbers.h"

namespace cpuaccel::kernels {
namespace {

struct Problem {
  int64_t N, H, T, D, R;
  DataType type = DataType::f32, table = DataType::f32;
  bool shared = false;          // one table for the whole batch
  bool positions_first = true;  // src is N x T x H x D in memory, dst N x H x T x D
};

void check(const Problem& p, RotaryFunction* function) {
  const int64_t count = p.N * p.H * p.T * p.D, tables = p.shared ? 1 : p.N;
  auto src = TypedNumbers::normal(count, p.type, 1);
  auto cos = TypedNumbers::normal(tables * p.T * p.R, p.table, 2);
  auto sin = TypedNumbers::normal(tables * p.T * p.R, p.table, 3);
  TypedNumbers dst(count, p.type);
  const RotaryHeads heads{nullptr, p.H * p.T * p.D, p.T * p.D, p.D};
  const RotaryHeads positions{nullptr, p.H * p.T * p.D, p.D, p.H * p.D};
  RotaryCall call;
  call.N = p.N;
  call.H = p.H;
  call.T = p.T;
  call.D = p.D;
  call.R = p.R;
  call.type = p.type;
  call.src = p.positions_first ? positions : heads;
  call.dst = heads;
  call.src.data = src.data();
  call.dst.data = dst.data();
  call.cos = {cos.data(), p.table, p.shared ? 0 : p.T * p.R, p.R};
  call.sin = {sin.data(), p.table, p.shared ? 0 : p.T * p.R, p.R};
  rotary(call, function);
  for (int64_t n = 0; n < p.N; ++n) {
    for (int64_t h = 0; h < p.H; ++h) {
      for (int64_t t = 0; t < p.T; ++t) {
        const auto at = [&](const RotaryHeads& of, int64_t i) {
          return n * of.n_stride + h * of.h_stride + t * of.t_stride + i;
        };
        const int64_t row = n * call.cos.n_stride + t * call.cos.t_stride, half = p.R / 2;
        for (int64_t i = 0; i < p.D; ++i) {
          const double x = src.exact(at(call.src, i));
          double expected = x, bound = 0.0;
          if (i < p.R) {
            const double other = src.exact(at(call.src, i < half ? i + half : i - half));
            const double a = x * cos.exact(row + i);
            const double b = other * sin.exact(row + i);
            expected = i < half ? a - b : a + b;
            bound = 0x1p-22 * (std::abs(a) + std::abs(b)) + rounding_error(p.type, expected);
          }
          ASSERT_NEAR(dst.exact(at(call.dst, i)), expected, bound)
              << "head " << h << ", position " << t << ", element " << i;
        }
      }
    }
  }
}

class RotaryTest : public testing::TestWithParam<KernelRow<RotaryFunction>> {};

INSTANTIATE_TEST_SUITE_P(Rows, RotaryTest, testing::ValuesIn(usable_rows(rotary_kernels())),
                         RowName());

TEST_P(RotaryTest, EveryWidth) {
  for (int64_t R = 2; R <= 140; R += 2) {
    check({.N = 1, .H = 2, .T = 3, .D = R, .R = R}, GetParam().function);
    check({.N = 1, .H = 1, .T = 2, .D = R + 5, .R = R}, GetParam().function);
  }
}

TEST_P(RotaryTest, AllForms) {
  for (const DataType type : kFloatTypes) {
    for (const bool shared : {false, true}) {
      for (const bool positions_first : {false, true}) {
        for (const DataType table : {DataType::f32, type}) {
          check({.N = 2,
                 .H = 3,
                 .T = 5,
                 .D = 64,
                 .R = 48,
                 .type = type,
                 .table = table,
                 .shared = shared,
                 .positions_first = positions_first},
                GetParam().function);
        }
      }
    }
  }
}

}  // namespace
}  // namespace cpuaccel::kernels
