#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "emulated.h"
#include "gemm_case.h"
#include "guarded.h"
#include "kernel_rows.h"
#include "kernels/gemm/kernels.h"
#include "kernels/gemm/packed.h"
#include "kernels/round_up.h"

namespace cpuaccel::kernels {
namespace {

constexpr DataType kTypes[] = {DataType::f32, DataType::bf16, DataType::f16};

class GemmPackedTest : public testing::TestWithParam<KernelRow<GemmFunction>> {};

INSTANTIATE_TEST_SUITE_P(Rows, GemmPackedTest, testing::ValuesIn(usable_rows(gemm_kernels())),
                         RowName());

// Packed B gives the same results as B, and unpacks bit for bit.
TEST_P(GemmPackedTest, ResultsOfB) {
  for (const GemmShape& shape :
       {GemmShape{1, 33, 50}, GemmShape{7, 21, 300}, GemmShape{150, 70, 600},
        GemmShape{20, 70, 1700}, GemmShape{3, 5, 4, 2}, GemmShape{2, 3, 0}}) {
    for (const DataType type : kTypes) {
      for (const Layout layout : some_of({Layout::rows, Layout::columns, Layout::spread}, 3)) {
        GemmOptions options;
        options.b = type;
        options.b_layout = layout;
        GemmCase item(shape, options);
        for (int64_t k = 0; k < shape.K; ++k) {
          for (int64_t n = 0; n < shape.N; ++n) {
            item.b.set(shape.batch - 1, k, n, item.b.at(0, k, n));
          }
        }
        const GemmPacked packed(item.b.matrix(), shape.K, shape.N, GetParam().function);
        GemmCall call = item.call();
        call.packed = &packed;
        call.b.data = nullptr;
        gemm(call);
        item.check();
        const int64_t padded = round_up(shape.N, GetParam().function().nr);
        EXPECT_EQ(packed.bytes(), static_cast<size_t>(shape.K * padded * data_type_size(type)));
        TestMatrix back = item.b;
        back.fill(0.0f);
        GemmDst dst = back.dst();
        packed.unpack(dst.data, item.b.matrix().row_stride, item.b.matrix().column_stride);
        for (int64_t k = 0; k < shape.K; ++k) {
          for (int64_t n = 0; n < shape.N; ++n) {
            ASSERT_EQ(back.at(0, k, n), item.b.at(0, k, n));
          }
        }
      }
    }
  }
}

// Few rows use tiles if B is packed: all heights, widths and remainders of K.
TEST_P(GemmPackedTest, FewRows) {
  const int64_t nr = GetParam().function().nr;
  for (const DataType type : kTypes) {
    for (const int64_t N : {nr / 4, nr / 2, nr - 1, nr, nr + 1}) {
      for (const int64_t K : {1, 4, 6, 7, 21}) {
        GemmOptions options;
        options.b = type;
        options.beta = 0.5f;
        options.alpha = -2.0f;
        GemmCase weights({1, N, K}, options);
        const GemmPacked packed(weights.b.matrix(), K, N, GetParam().function);
        for (int64_t M = 1; M <= 9; ++M) {
          GemmCase item({M, N, K}, options);
          item.b = weights.b;
          GemmCall call = item.call();
          call.packed = &packed;
          call.b.data = nullptr;
          gemm(call);
          item.check();
          ASSERT_FALSE(HasFailure());
        }
      }
    }
  }
}

TEST_P(GemmPackedTest, KeepsEveryBit) {
  constexpr int64_t kK = 256, kN = 256;
  GuardedVector<uint16_t> halves(kK * kN), back(kK * kN);
  for (size_t i = 0; i < halves.size(); ++i) {
    halves[i] = static_cast<uint16_t>(i);  // every NaN too
  }
  const GemmPacked packed({halves.data(), DataType::bf16, kN, 1, 0}, kK, kN, GetParam().function);
  packed.unpack(back.data(), kN, 1);
  EXPECT_EQ(halves, back);
}

TEST_P(GemmPackedTest, InMemoryOfTheCaller) {
  constexpr int64_t kK = 300, kN = 70;
  GuardedVector<float> b(kK * kN), back(kK * kN);
  std::iota(b.begin(), b.end(), 0.0f);
  const GemmMatrix matrix{b.data(), DataType::f32, kN, 1, 0};
  const GemmPacked owner(matrix, kK, kN, GetParam().function);
  GuardedVector<float> memory(owner.bytes() / sizeof(float));
  GemmPacked(memory.data(), DataType::f32, kK, kN, GetParam().function).pack(matrix);
  const GemmPacked reader(memory.data(), DataType::f32, kK, kN, GetParam().function);
  reader.unpack(back.data(), kN, 1);
  EXPECT_EQ(back, b);
  std::fill(back.begin(), back.end(), 0.0f);
  owner.unpack(back.data(), kN, 1);
  EXPECT_EQ(back, b);
  if (owner.kc() == reader.kc()) {
    EXPECT_EQ(std::memcmp(memory.data(), owner.panel(0, 0), owner.bytes()), 0);
  }
}

// Panels of every width unpack to what was packed, whatever this CPU's own width is.
TEST(GemmPackedPanels, OfAnotherCpu) {
  constexpr int64_t kK = 300, kN = 70;
  GuardedVector<float> b(kK * kN), back(kK * kN);
  std::iota(b.begin(), b.end(), 0.0f);
  for (int64_t nr = 4; nr <= kGemmMaxNr; nr += 4) {
    GuardedVector<float> memory(static_cast<size_t>(kK * round_up(kN, nr)));
    GemmPacked packed(memory.data(), DataType::f32, kK, kN, nr);
    EXPECT_EQ(packed.row(), nullptr);
    ASSERT_EQ(packed.bytes(), memory.size() * sizeof(float));
    packed.pack({b.data(), DataType::f32, kN, 1, 0});
    for (const auto& row : usable_rows(gemm_kernels())) {
      if (row.function().nr == nr) {
        GuardedVector<float> of_row(memory.size());
        GemmPacked(of_row.data(), DataType::f32, kK, kN, row.function)
            .pack({b.data(), DataType::f32, kN, 1, 0});
        EXPECT_EQ(of_row, memory) << row.name;
      }
    }
    packed.unpack(back.data(), kN, 1);
    ASSERT_EQ(back, b) << nr;
  }
}

}  // namespace
}  // namespace cpuaccel::kernels
