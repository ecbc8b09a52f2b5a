#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <thread>
#include <vector>

#include "base/isa.h"
#include "base/parallel.h"
#include "emulated.h"
#include "gemm_case.h"
#include "kernel_rows.h"
#include "kernels/gemm/kernels.h"
#include "kernels/gemm/paths.h"

namespace cpuaccel::kernels {
namespace {

using Row = KernelRow<GemmFunction>;

constexpr Layout kLayouts[] = {Layout::rows,     Layout::columns,     Layout::spread,
                               Layout::same_row, Layout::same_column, Layout::one};
constexpr DataType kTypes[] = {DataType::f32, DataType::bf16, DataType::f16};

class GemmTest : public testing::TestWithParam<Row> {
 protected:
  void run(const GemmShape& shape, const GemmOptions& options = {}) const {
    GemmCase item(shape, options);
    gemm(item.call(), GetParam().function);
    item.check();
  }
};

INSTANTIATE_TEST_SUITE_P(Rows, GemmTest, testing::ValuesIn(usable_rows(gemm_kernels())), RowName());

TEST_P(GemmTest, EveryTail) {
  for (const Layout layout : {Layout::rows, Layout::columns}) {
    for (int64_t M = 1; M <= 31; ++M) {
      for (const int64_t N : {1, 2, 7, 8, 9, 16, 17, 31, 33, 65}) {
        for (const int64_t K : {1, 3, 8, 17}) {
          GemmOptions options;
          options.b_layout = layout;
          run({M, N, K}, options);
          ASSERT_FALSE(HasFailure());
        }
      }
    }
  }
}

TEST_P(GemmTest, EveryColumnCount) {
  for (int64_t N = 1; N <= 130; N += every(3)) {
    for (const int64_t M : {1, 4, 7, 60}) {
      for (const Layout layout : {Layout::rows, Layout::columns}) {
        GemmOptions options;
        options.b_layout = layout;
        run({M, N, 19}, options);
        ASSERT_FALSE(HasFailure());
      }
    }
  }
}

TEST_P(GemmTest, EveryDepth) {
  for (int64_t K = 1; K <= 70; K += every(3)) {
    for (const int64_t M : {1, 3, 6, 57}) {
      for (const Layout layout : {Layout::rows, Layout::columns}) {
        GemmOptions options;
        options.b_layout = layout;
        options.beta = 0.5f;
        run({M, 20, K}, options);
        ASSERT_FALSE(HasFailure());
      }
    }
  }
}

// More than one block of each kind.
TEST_P(GemmTest, Blocks) {
  for (const Layout layout : {Layout::rows, Layout::columns}) {
    GemmOptions options;
    options.b_layout = layout;
    options.bias = GemmBiasAxis::n;
    run({5, 50, 2100}, options);
    run({20, 70, 1500}, options);
    run({150, 40, 600}, options);
    run({60, 1100, 20}, options);
    options.dst = DataType::bf16;
    run({150, 40, 600}, options);
  }
}

TEST_P(GemmTest, Layouts) {
  for (const GemmShape& shape : {GemmShape{3, 21, 40}, GemmShape{60, 37, 29}, GemmShape{70, 2, 41},
                                 GemmShape{1, 1, 9}, GemmShape{2, 3, 5, 3}}) {
    for (const Layout a : kLayouts) {
      for (const Layout b : kLayouts) {
        GemmOptions options;
        options.a_layout = a;
        options.b_layout = b;
        run(shape, options);
        ASSERT_FALSE(HasFailure());
      }
    }
  }
}

TEST_P(GemmTest, Types) {
  for (const GemmShape& shape :
       {GemmShape{1, 33, 50}, GemmShape{7, 21, 33}, GemmShape{61, 37, 30}, GemmShape{70, 3, 41}}) {
    for (const DataType a : kTypes) {
      for (const DataType b : kTypes) {
        for (const DataType dst : kTypes) {
          for (const Layout layout : {Layout::rows, Layout::columns}) {
            GemmOptions options;
            options.a = a;
            options.b = b;
            options.dst = dst;
            options.a_layout = layout;
            options.b_layout = layout;
            options.beta = 0.5f;
            run(shape, options);
            ASSERT_FALSE(HasFailure());
          }
        }
      }
    }
  }
}

// Dot products of one row: it is read as halves if both operands are, and by four columns at a time
// if it is long.
TEST_P(GemmTest, OneRow) {
  for (const DataType type : kTypes) {
    for (const int64_t K : {63, 129, 1000, 3073, 6200}) {
      for (const int64_t N : {1, 6, 11}) {
        GemmOptions options;
        options.a = options.b = type;
        options.b_layout = Layout::columns;
        options.beta = 0.5f;
        run({1, N, K}, options);
        ASSERT_FALSE(HasFailure());
        options.a_layout = Layout::spread;
        run({1, N, K}, options);
        ASSERT_FALSE(HasFailure());
        // One column of B, by the rows of A.
        options.a_layout = Layout::rows;
        run({N, 1, K}, options);
        ASSERT_FALSE(HasFailure());
      }
    }
  }
}

TEST_P(GemmTest, AlphaBetaBias) {
  for (const GemmShape& shape : {GemmShape{1, 33, 10}, GemmShape{7, 21, 33}, GemmShape{61, 37, 30},
                                 GemmShape{70, 3, 41}, GemmShape{5, 6, 0}, GemmShape{2, 3, 4, 5}}) {
    for (const float alpha : {1.0f, 0.0f, -2.5f}) {
      for (const float beta : {0.0f, 1.0f, -0.75f}) {
        for (const GemmBiasAxis bias : {GemmBiasAxis::none, GemmBiasAxis::n, GemmBiasAxis::m}) {
          for (const DataType dst : {DataType::f32, DataType::bf16}) {
            GemmOptions options;
            options.dst = dst;
            options.alpha = alpha;
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

void add_other(const GemmShape& shape, const GemmOptions& options, DataType type, Layout layout,
               GemmFunction* row) {
  GemmCase item(shape, options);
  TestMatrix c(shape.batch, shape.M, shape.N, type, layout);
  std::mt19937 generator(3);
  c.fill(generator);
  for (int64_t g = 0; g < shape.batch; ++g) {
    for (int64_t m = 0; m < shape.M; ++m) {
      for (int64_t n = 0; n < shape.N; ++n) {
        item.before.set(g, m, n, c.at(g, m, n));
      }
    }
  }
  item.dst.fill(std::nanf(""));
  GemmCall call = item.call();
  call.c = c.matrix();
  gemm(call, row);
  item.check();
}

// c is apart from dst: one row for all rows, as in addmm's bias. Sums of tiles start with its
// values.
TEST_P(GemmTest, OtherAddend) {
  for (const GemmShape& shape : {GemmShape{9, 40, 12, 2}, GemmShape{27, 37, 270}}) {
    for (const DataType type : {DataType::f32, DataType::bf16}) {
      for (const Layout layout : kLayouts) {
        for (const float beta : {1.0f, 2.0f}) {
          for (const GemmBiasAxis bias : some_of({GemmBiasAxis::none, GemmBiasAxis::n}, 2)) {
            GemmOptions options;
            options.beta = beta;
            options.bias = bias;
            add_other(shape, options, type, layout, GetParam().function);
            ASSERT_FALSE(HasFailure());
          }
        }
      }
    }
  }
}

// Rows of A that share L1 sets: they are copied if a tile has more rows than L1 has ways.
TEST_P(GemmTest, RowsAPowerOfTwoApart) {
  run({30, 70, 1024}, {});
  run({50, 66, 2048}, {});
}

TEST_P(GemmTest, BiasOfHalves) {
  for (const GemmShape& shape : {GemmShape{3, 33, 10}, GemmShape{61, 70, 300}}) {
    for (const GemmBiasAxis axis : {GemmBiasAxis::n, GemmBiasAxis::m}) {
      for (const DataType type : {DataType::bf16, DataType::f16}) {
        GemmOptions options;
        options.bias = axis;
        options.bias_type = type;
        run(shape, options);
        ASSERT_FALSE(HasFailure());
      }
    }
  }
}

void expect_followed(const GemmShape& shape, const GemmOptions& options, GemmFunction* row) {
  const auto negate = [](const void* /*context*/, float* values, int64_t count) {
    std::transform(values, values + count, values, std::negate<>());
  };
  GemmCase plain(shape, options), followed(shape, options);
  gemm(plain.call(), row);
  GemmCall call = followed.call();
  call.after.run = negate;
  gemm(call, row);
  for (int64_t m = 0; m < shape.M; ++m) {
    for (int64_t n = 0; n < shape.N; ++n) {
      ASSERT_EQ(followed.dst.at(0, m, n), -plain.dst.at(0, m, n));
    }
  }
}

TEST_P(GemmTest, WhatFollows) {
  for (const GemmShape& shape : {GemmShape{1, 33, 21}, GemmShape{14, 5, 300}, GemmShape{25, 40, 0},
                                 GemmShape{250, 40, 300}}) {
    for (const Layout layout : {Layout::rows, Layout::columns}) {
      for (const DataType dst : {DataType::f32, DataType::bf16}) {
        GemmOptions options;
        options.b_layout = layout;
        options.dst = dst;
        options.bias = GemmBiasAxis::n;
        expect_followed(shape, options, GetParam().function);
      }
    }
  }
}

// The post-op runs once for each result, when its sum is complete: here K is cut into several
// pieces.
TEST(GemmDriver, WhatFollowsTheLastPiece) {
  if (is_emulated()) {
    GTEST_SKIP() << "CPUACCEL_TEST_EMULATED: K of 140,000 takes a minute on an emulated CPU, and "
                    "gemm/blocked.cpp, which cuts K into pieces, is the same code for all ISAs";
  }
  GemmOptions options;
  options.dst = DataType::bf16;
  expect_followed({150, 8, 140000}, options, usable_rows(gemm_kernels()).front().function);
}

TEST_P(GemmTest, Empty) {
  run({0, 5, 5});
  run({5, 0, 5});
  run({5, 5, 5, 0});
  run({5, 5, 0});
}

// A special value in a row or column reaches its own results and no others, tails and padding
// included.
TEST_P(GemmTest, NotANumberStaysWhereItBelongs) {
  const float infinity = std::numeric_limits<float>::infinity();
  for (const GemmShape& shape : {GemmShape{3, 19, 21}, GemmShape{61, 37, 30}, GemmShape{70, 3, 13},
                                 GemmShape{1, 5, 3}, GemmShape{7, 50, 11}}) {
    for (const Layout layout : {Layout::rows, Layout::columns}) {
      GemmOptions options;
      options.b_layout = layout;
      GemmCase item(shape, options);
      const int64_t last = shape.K - 1;
      for (int64_t k = 0; k < shape.K; ++k) {
        item.a.set(0, 0, k, 0.0f);
      }
      item.b.set(0, last, shape.N - 1, infinity);
      gemm(item.call(), GetParam().function);
      for (int64_t m = 0; m < shape.M; ++m) {
        for (int64_t n = 0; n < shape.N; ++n) {
          const float got = item.dst.at(0, m, n);
          if (n < shape.N - 1) {
            ASSERT_TRUE(std::isfinite(got)) << to_text(shape, options) << " " << m << " " << n;
          } else if (m == 0) {
            ASSERT_TRUE(std::isnan(got)) << "0 * inf, " << to_text(shape, options);
          } else {
            ASSERT_TRUE(std::isinf(got)) << to_text(shape, options) << " " << m;
          }
        }
      }
    }
  }
}

// As in torch: f32 operands are not read, 16-bit ones are.
TEST_P(GemmTest, AlphaZeroAndNotANumber) {
  for (const GemmShape& shape : {GemmShape{2, 9, 5}, GemmShape{60, 20, 9}, GemmShape{60, 1, 9}}) {
    for (const DataType type : kTypes) {
      GemmOptions options;
      options.a = options.b = options.dst = type;
      options.alpha = 0.0f;
      options.beta = 1.0f;
      GemmCase item(shape, options);
      item.a.set(0, 1, 2, std::nanf(""));
      gemm(item.call(), GetParam().function);
      EXPECT_EQ(item.dst.at(0, 0, 0), item.before.at(0, 0, 0));
      if (type == DataType::f32) {
        EXPECT_EQ(item.dst.at(0, 1, 0), item.before.at(0, 1, 0));
      } else {
        EXPECT_TRUE(std::isnan(item.dst.at(0, 1, 0)));
      }
    }
  }
}

TEST_P(GemmTest, NegativeStrides) {
  GemmCase item({5, 30, 17}, {});
  GemmCase flipped = item;
  GemmCall call = flipped.call();
  for (int64_t m = 0; m < 5; ++m) {
    for (int64_t k = 0; k < 17; ++k) {
      flipped.a.set(0, m, k, item.a.at(0, 4 - m, 16 - k));
    }
  }
  call.a.data = static_cast<const float*>(call.a.data) + 5 * 17 - 1;
  call.a.row_stride = -17;
  call.a.column_stride = -1;
  gemm(call, GetParam().function);
  gemm(item.call(), GetParam().function);
  EXPECT_EQ(item.dst.bytes(), flipped.dst.bytes());
}

// A row of dst does not run into the next.
TEST_P(GemmTest, RowsOfALargerResult) {
  for (const DataType type : kTypes) {
    for (const int64_t N : {1, 5, 13, 33}) {
      for (const int64_t M : {1, 9, 50}) {
        GemmOptions options;
        options.dst = type;
        GemmCase item({M, N, 12}, options);
        TestMatrix large(1, M, N + 7, type, Layout::rows);
        large.fill(99.0f);
        GemmCall call = item.call();
        call.dst = large.dst();
        gemm(call, GetParam().function);
        gemm(item.call(), GetParam().function);
        for (int64_t m = 0; m < M; ++m) {
          for (int64_t n = 0; n < N + 7; ++n) {
            ASSERT_EQ(large.at(0, m, n), n < N ? item.dst.at(0, m, n) : 99.0f) << M << " " << N;
          }
        }
      }
    }
  }
}

// Operands from functions instead of matrices.
TEST_P(GemmTest, Sources) {
  for (const GemmShape& shape : {GemmShape{3, 19, 21, 2}, GemmShape{150, 70, 600}}) {
    GemmCase item(shape, {});
    GemmCall call = item.call();
    call.a.data = nullptr;
    call.b.data = nullptr;
    call.pack_a = {[](const void* context, const RowBlock& block) {
                     const auto& a = static_cast<const GemmCase*>(context)->a;
                     for (int64_t m = 0; m < block.mc; ++m) {
                       for (int64_t k = 0; k < block.kc; ++k) {
                         block.rows[m * block.stride + k] =
                             a.at(block.g, block.m0 + m, block.k0 + k);
                       }
                     }
                   },
                   &item};
    call.pack_b = {
        .write =
            [](const void* context, const PanelBlock& block) {
              const auto& b = static_cast<const GemmCase*>(context)->b;
              ASSERT_LE(block.kc, kGemmMaxKc);
              ASSERT_EQ(block.n0 % block.nr, 0);
              const int64_t padded = (block.nc + block.nr - 1) / block.nr * block.nr;
              for (int64_t n = 0; n < padded; ++n) {
                for (int64_t k = 0; k < block.kc; ++k) {
                  block.panels[n / block.nr * block.kc * block.nr + k * block.nr + n % block.nr] =
                      n < block.nc ? b.at(block.g, block.k0 + k, block.n0 + n) : 0.0f;
                }
              }
            },
        .context = &item};
    gemm(call, GetParam().function);
    item.check();
  }
}

// Splits a range into three parts for three threads.
void three_threads(int64_t begin, int64_t end, int64_t grain, const RangeBody& body) {
  const int64_t part = std::max(grain, (end - begin + 2) / 3);
  std::vector<std::thread> threads;
  for (int64_t first = begin; first < end; first += part) {
    threads.emplace_back([&body, first, last = std::min(end, first + part)] { body(first, last); });
  }
  for (auto& thread : threads) {
    thread.join();
  }
}

void one_thread(int64_t begin, int64_t end, int64_t /*grain*/, const RangeBody& body) {
  if (begin < end) {
    body(begin, end);
  }
}

TEST_P(GemmTest, ThreadsDoNotChangeBits) {
  for (const GemmShape& shape :
       {GemmShape{1, 3000, 700}, GemmShape{16, 1000, 1100}, GemmShape{200, 300, 600},
        GemmShape{3000, 2, 300}, GemmShape{40, 50, 60, 7}}) {
    for (const Layout layout : some_of({Layout::rows, Layout::columns}, 2)) {
      for (const DataType type : some_of({DataType::f32, DataType::bf16}, 2)) {
        GemmOptions options;
        options.b_layout = layout;
        options.a = options.b = options.dst = type;
        GemmCase serial(shape, options), threaded(shape, options);
        gemm(serial.call(), GetParam().function);
        set_parallel_for(three_threads, [] { return 3; });
        gemm(threaded.call(), GetParam().function);
        set_parallel_for(one_thread, [] { return 1; });
        EXPECT_EQ(serial.dst.bytes(), threaded.dst.bytes()) << to_text(shape, options);
      }
    }
  }
}

TEST(GemmPaths, EachIsTaken) {
  const auto path_of = [](const GemmShape& shape, Layout layout) {
    GemmOptions options;
    options.b_layout = layout;
    GemmCase item(shape, options);
    return std::string(gemm_path(item.call(), gemm_ref()).name);
  };
  EXPECT_EQ(path_of({1, 768, 768}, Layout::columns), "dot");
  EXPECT_EQ(path_of({16, 768, 768}, Layout::columns), "dot");
  EXPECT_EQ(path_of({16, 64, 64}, Layout::columns), isa_usable(Isa::avx512) ? "blocked" : "dot");
  EXPECT_EQ(path_of({8, 64, 64}, Layout::columns), "dot");
  EXPECT_EQ(path_of({1024, 1, 768}, Layout::rows), "dot_columns");
  EXPECT_EQ(path_of({4, 768, 768}, Layout::rows), "rows");
  EXPECT_EQ(path_of({16, 768, 768}, Layout::rows), "blocked");
  EXPECT_EQ(path_of({128, 768, 768}, Layout::columns), "blocked");
}

TEST(GemmList, EndsInRef) { EXPECT_EQ(gemm_kernels().back().isa, Isa::ref); }

}  // namespace
}  // namespace cpuaccel::kernels
