#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <random>

#include "guarded.h"
#include "kernel_rows.h"
#include "kernels/lstm_cell/lstm_cell.h"

namespace cpuaccel::kernels {
namespace {

class LstmCellTest : public testing::TestWithParam<KernelRow<LstmCellFunction>> {};

INSTANTIATE_TEST_SUITE_P(Rows, LstmCellTest, testing::ValuesIn(usable_rows(lstm_cell_kernels())),
                         RowName());

double sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }

void check(const GuardedVector<float>& gates, const GuardedVector<float>& before,
           LstmCellFunction* function) {
  const size_t size = before.size();
  GuardedVector<float> c = before, h(size);
  function({static_cast<int64_t>(size), gates.data(), c.data(), h.data()});
  for (size_t j = 0; j < size; ++j) {
    const auto gate = [&](size_t index) { return static_cast<double>(gates[index * size + j]); };
    const double next =
        sigmoid(gate(1)) * static_cast<double>(before[j]) + sigmoid(gate(0)) * std::tanh(gate(2));
    const double bound = 0x1p-21 * (1.0 + std::fabs(next));
    ASSERT_NEAR(static_cast<double>(c[j]), next, bound) << j << " of " << size;
    ASSERT_NEAR(static_cast<double>(h[j]), sigmoid(gate(3)) * std::tanh(next), bound + 0x1p-21)
        << j << " of " << size;
  }
}

TEST_P(LstmCellTest, EverySize) {
  std::mt19937 random(1);
  for (const float most : {1.0f, 8.0f, 100.0f, 1e6f}) {
    std::uniform_real_distribution<float> any(-most, most), state(-4.0f, 4.0f);
    for (size_t size = 0; size <= 70; ++size) {
      GuardedVector<float> gates(4 * size), c(size);
      for (auto& value : gates) {
        value = any(random);
      }
      for (auto& value : c) {
        value = state(random);
      }
      check(gates, c, GetParam().function);
    }
  }
}

TEST_P(LstmCellTest, WhatIsNotFinite) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  // Columns: all gates open, all closed, then a NaN in each gate in turn.
  const float nan = std::nanf("");
  const GuardedVector<float> gates{kInfinity, -kInfinity, nan, 1,   1,   1,   1,  //
                                   kInfinity, -kInfinity, 1,   nan, 1,   1,   1,  //
                                   kInfinity, -kInfinity, 1,   1,   nan, 1,   1,  //
                                   kInfinity, -kInfinity, 1,   1,   1,   nan, 1};
  GuardedVector<float> c{0.5f, 0.5f, 1, 1, 1, 1, nan}, h(7);
  GetParam().function({7, gates.data(), c.data(), h.data()});
  EXPECT_FLOAT_EQ(c[0], 1.5f);
  EXPECT_FLOAT_EQ(h[0], std::tanh(1.5f));
  EXPECT_EQ(c[1], 0.0f);
  EXPECT_EQ(h[1], 0.0f);
  for (const size_t j : {2, 3, 4, 6}) {
    EXPECT_TRUE(std::isnan(c[j])) << j;
    EXPECT_TRUE(std::isnan(h[j])) << j;
  }
  EXPECT_FALSE(std::isnan(c[5]));
  EXPECT_TRUE(std::isnan(h[5]));
}

TEST(LstmCells, Strides) {
  constexpr int64_t kSize = 5, kBatch = 3;
  GuardedVector<float> gates(kBatch * 30, 0.5f), c(kBatch * 7, 1.0f), h(kBatch * 9, -7.0f);
  lstm_cells({kSize, gates.data(), c.data(), h.data()}, kBatch, {30, 7, 9});
  for (int64_t b = 0; b < kBatch; ++b) {
    for (int64_t j = 0; j < 9; ++j) {
      EXPECT_EQ(h[static_cast<size_t>(b * 9 + j)] == -7.0f, j >= kSize);
    }
  }
}

TEST(LstmCellList, EndsInRef) { EXPECT_EQ(lstm_cell_kernels().back().isa, Isa::ref); }

}  // namespace
}  // namespace cpuaccel::kernels
