#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "emulated.h"
#include "gemm_case.h"
#include "guarded.h"
#include "kernel_rows.h"
#include "kernels/gemm/packed.h"
#include "kernels/gemm_bf16/gemm_bf16.h"
#include "kernels/gemm_bf16/packed.h"

namespace cpuaccel::kernels {
namespace {

using Row = KernelRow<GemmBf16Function>;

constexpr Layout kLayouts[] = {Layout::rows,     Layout::columns,     Layout::spread,
                               Layout::same_row, Layout::same_column, Layout::one};
constexpr DataType kOperands[] = {DataType::f32, DataType::bf16};

class GemmBf16Test : public testing::TestWithParam<Row> {
 protected:
  void run(const GemmShape& shape, GemmOptions options = {}) const {
    options.bf16_arithmetic = true;
    GemmCase item(shape, options);
    gemm_bf16(item.call(), GetParam().function);
    item.check();
  }
};

INSTANTIATE_TEST_SUITE_P(Rows, GemmBf16Test, testing::ValuesIn(usable_rows(gemm_bf16_kernels())),
                         RowName());

TEST_P(GemmBf16Test, EveryTail) {
  for (const DataType type : kOperands) {
    for (const Layout layout : {Layout::rows, Layout::columns}) {
      for (const int64_t M : {1, 2, 5, 14, 15, 49, 60}) {
        for (const int64_t N : some_of<int64_t>({1, 7, 15, 16, 17, 31, 32, 33, 49, 65}, 3)) {
          for (const int64_t K : some_of<int64_t>({1, 2, 3, 31, 32, 33, 64, 65}, 2)) {
            GemmOptions options;
            options.a = options.b = type;
            options.a_layout = options.b_layout = layout;
            run({M, N, K}, options);
            ASSERT_FALSE(HasFailure());
          }
        }
      }
    }
  }
}

TEST_P(GemmBf16Test, Layouts) {
  for (const GemmShape& shape : {GemmShape{3, 21, 40}, GemmShape{60, 37, 29}, GemmShape{70, 2, 41},
                                 GemmShape{1, 1, 9}, GemmShape{2, 3, 6, 3}}) {
    for (const Layout a : kLayouts) {
      for (const Layout b : kLayouts) {
        for (const DataType type : kOperands) {
          GemmOptions options;
          options.a = options.b = type;
          options.a_layout = a;
          options.b_layout = b;
          run(shape, options);
          ASSERT_FALSE(HasFailure());
        }
      }
    }
  }
}

TEST_P(GemmBf16Test, TypesAndAddends) {
  for (const GemmShape& shape : {GemmShape{1, 33, 10}, GemmShape{7, 21, 33}, GemmShape{61, 37, 30},
                                 GemmShape{5, 6, 0}, GemmShape{2, 3, 4, 5}}) {
    for (const DataType a : kOperands) {
      for (const DataType b : kOperands) {
        for (const DataType dst : {DataType::f32, DataType::bf16}) {
          for (const float beta : {0.0f, -0.75f}) {
            for (const GemmBiasAxis bias : {GemmBiasAxis::none, GemmBiasAxis::n}) {
              GemmOptions options;
              options.a = a;
              options.b = b;
              options.dst = dst;
              options.alpha = -2.5f;
              options.beta = beta;
              options.bias = bias;
              run(shape, options);
              ASSERT_FALSE(HasFailure());
            }
          }
        }
      }
    }
  }
}

// c is apart from dst, with a bias and without: tiles start with both.
TEST_P(GemmBf16Test, OtherAddend) {
  for (const GemmShape& shape : {GemmShape{9, 48, 12}, GemmShape{40, 37, 34}}) {
    for (const float alpha : {1.0f, -2.5f}) {
      for (const GemmBiasAxis bias : {GemmBiasAxis::none, GemmBiasAxis::n}) {
        GemmOptions options;
        options.a = options.b = DataType::bf16;
        options.alpha = alpha;
        options.beta = 1.0f;
        options.bias = bias;
        options.bf16_arithmetic = true;
        GemmCase item(shape, options);
        const TestMatrix c = item.before;
        item.dst.fill(std::nanf(""));
        GemmCall call = item.call();
        call.c = c.matrix();
        gemm_bf16(call, GetParam().function);
        item.check();
        ASSERT_FALSE(HasFailure());
      }
    }
  }
}

// More than one block of each kind.
TEST_P(GemmBf16Test, Blocks) {
  for (const Layout layout : some_of({Layout::rows, Layout::columns}, 2)) {
    for (const DataType type : kOperands) {
      GemmOptions options;
      options.a = options.b = type;
      options.b_layout = layout;
      run({5, 50, 4200}, options);
      run({20, 70, 1500}, options);
      run({250, 40, 600}, options);
      run({60, 1100, 20}, options);
      options.dst = DataType::bf16;
      run({250, 40, 1100}, options);
    }
  }
}

TEST_P(GemmBf16Test, PackedOnce) {
  for (const GemmShape& shape : {GemmShape{9, 33, 21}, GemmShape{14, 64, 700},
                                 GemmShape{60, 70, 1031}, GemmShape{3, 5, 1}}) {
    for (const DataType a : kOperands) {
      GemmOptions options;
      options.a = a;
      options.bf16_arithmetic = true;
      options.b_layout = Layout::columns;
      GemmCase item(shape, options);
      const GemmPacked packed(item.call().b, shape.K, shape.N, GetParam().function().pairs);
      GemmCall call = item.call();
      call.packed = &packed;
      gemm_bf16(call, GetParam().function);
      item.check();
      ASSERT_FALSE(HasFailure());
    }
  }
}

TEST_P(GemmBf16Test, WrittenByACallback) {
  for (const GemmShape& shape : {GemmShape{9, 33, 21}, GemmShape{14, 300, 700},
                                 GemmShape{60, 70, 2060}, GemmShape{3, 5, 1}}) {
    GemmOptions options;
    options.a = DataType::bf16;
    options.bf16_arithmetic = true;
    GemmCase item(shape, options);
    GemmCall call = item.call();
    const GemmMatrix b = call.b;
    call.b = {};
    call.pack_b.context = &b;
    const int64_t N = shape.N;
    EXPECT_EQ(b.column_stride, 1);
    EXPECT_EQ(b.row_stride, N);
    call.pack_b.write = [](const void* context, const PanelBlock& block) {
      const auto& from = *static_cast<const GemmMatrix*>(context);
      for (int64_t j = 0; j < (block.nc + block.nr - 1) / block.nr * block.nr; ++j) {
        float* to = block.panels + j / block.nr * block.kc * block.nr + j % block.nr;
        for (int64_t k = 0; k < block.kc; ++k) {
          to[k * block.nr] = j < block.nc
                                 ? static_cast<const float*>(
                                       from.data)[(block.k0 + k) * from.row_stride + block.n0 + j]
                                 : 0.0f;
        }
      }
    };
    gemm_bf16(call, GetParam().function);
    item.check();
    ASSERT_FALSE(HasFailure());
  }
}

// Unpacking gives b, rounded.
void expect_unpacked(const GemmBf16Packed& packed, const TestMatrix& b) {
  GuardedVector<uint16_t> plain(static_cast<size_t>(packed.K() * packed.N()));
  packed.unpack(plain.data(), packed.N(), 1);
  for (int64_t k = 0; k < packed.K(); ++k) {
    for (int64_t n = 0; n < packed.N(); ++n) {
      uint16_t rounded = 0;
      float_to_element(b.at(0, k, n), &rounded, DataType::bf16, 0);
      ASSERT_EQ(plain[static_cast<size_t>(k * packed.N() + n)], rounded);
    }
  }
}

TEST_P(GemmBf16Test, PackedInBf16) {
  for (const GemmShape& shape :
       {GemmShape{1, 33, 21}, GemmShape{2, 5, 4}, GemmShape{14, 64, 700}, GemmShape{60, 70, 1031},
        GemmShape{3, 5, 1}, GemmShape{130, 19, 2}}) {
    for (const DataType a : kOperands) {
      for (const DataType b : kOperands) {
        for (const Layout layout : {Layout::rows, Layout::columns, Layout::spread}) {
          GemmOptions options;
          options.a = a;
          options.b = b;
          options.bf16_arithmetic = true;
          options.b_layout = layout;
          options.bias = GemmBiasAxis::n;
          GemmCase item(shape, options);
          GemmBf16Packed packed(nullptr, shape.K, shape.N, GetParam().function);
          const AlignedBlock memory = aligned_block(packed.bytes());
          packed = GemmBf16Packed(memory.get(), shape.K, shape.N, GetParam().function);
          packed.pack(item.call().b);
          GemmCall call = item.call();
          call.b = {};
          gemm_bf16(call, packed);
          item.check();
          ASSERT_FALSE(HasFailure());
          expect_unpacked(packed, item.b);
        }
      }
    }
  }
}

// Panels of the row's own width are used in place; others are computed by family gemm.
TEST_P(GemmBf16Test, PackedByAnyRow) {
  for (const auto& row : usable_rows(gemm_kernels())) {
    GemmOptions options;
    options.bf16_arithmetic = row.function().nr == GetParam().function().pairs().nr;
    GemmCase item({14, 64, 700}, options);
    const GemmPacked packed(item.call().b, item.shape.K, item.shape.N, row.function);
    GemmCall call = item.call();
    call.packed = &packed;
    gemm_bf16(call, GetParam().function);
    item.check();
    ASSERT_FALSE(HasFailure()) << row.name;
  }
}

// A padding zero must not meet an infinity, and a NaN reaches the results of its row and column.
TEST_P(GemmBf16Test, NotANumberStaysWhereItBelongs) {
  for (const float odd : {std::numeric_limits<float>::infinity(), std::nanf("")}) {
    for (const GemmShape& shape : {GemmShape{3, 19, 21}, GemmShape{61, 37, 30}}) {
      for (const Layout layout : {Layout::rows, Layout::columns}) {
        GemmOptions options;
        options.b_layout = layout;
        GemmCase item(shape, options);
        item.b.fill(1.0f);
        item.a.fill(1.0f);
        item.b.set(0, shape.K - 1, shape.N - 1, odd);
        gemm_bf16(item.call(), GetParam().function);
        for (int64_t m = 0; m < shape.M; ++m) {
          for (int64_t n = 0; n < shape.N; ++n) {
            const float got = item.dst.at(0, m, n);
            if (n < shape.N - 1) {
              ASSERT_EQ(got, static_cast<float>(shape.K));
            } else if (std::isnan(odd)) {
              ASSERT_TRUE(std::isnan(got));
            } else {
              ASSERT_EQ(got, odd);
            }
          }
        }
      }
    }
  }
}

TEST(GemmBf16, ReferenceIsThereWithoutTheInstruction) {
  EXPECT_STREQ(gemm_bf16_kernels().back().name, "ref");
#if !defined(CPUACCEL_REFERENCE_ONLY)
  EXPECT_EQ(first_usable(gemm_bf16_kernels()).isa != Isa::ref, isa_usable(Isa::bf16));
#endif
}

}  // namespace
}  // namespace cpuaccel::kernels
