#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "base/parallel.h"
#include "guarded.h"
#include "kernel_rows.h"
#include "kernels/transpose/transpose.h"

namespace cpuaccel::kernels {
namespace {

using Row = KernelRow<TransposeFunction>;
class TransposeTest : public testing::TestWithParam<Row> {};

INSTANTIATE_TEST_SUITE_P(Rows, TransposeTest, testing::ValuesIn(usable_rows(transpose_kernels())),
                         RowName());

GuardedVector<uint8_t> random_bytes(int64_t count) {
  std::mt19937 generator(static_cast<unsigned>(count));
  GuardedVector<uint8_t> result(static_cast<size_t>(count));
  for (auto& value : result) {
    value = static_cast<uint8_t>(generator() % 255);  // 255 marks what no kernel may write
  }
  return result;
}

int64_t last_byte(int64_t batches, int64_t batch, int64_t rows, int64_t stride, int64_t bytes) {
  return (batches - 1) * batch + (rows - 1) * stride + bytes;
}

// `function` gives the formula of transpose.h, and reads and writes nothing else.
void check(const Transpose& s, TransposeFunction* function) {
  // Blocks of exactly the used size, so that AddressSanitizer detects any byte past them.
  const auto src = random_bytes(last_byte(s.B, s.src_batch, s.M, s.src_stride, s.K));
  const auto size = static_cast<size_t>(last_byte(s.B, s.dst_batch, s.K, s.dst_stride, s.M));
  GuardedVector<uint8_t> dst(size, 255), expected(size, 255);
  for (int64_t b = 0; b < s.B; ++b) {
    for (int64_t m = 0; m < s.M; ++m) {
      for (int64_t k = 0; k < s.K; ++k) {
        expected[static_cast<size_t>(b * s.dst_batch + k * s.dst_stride + m)] =
            src[static_cast<size_t>(b * s.src_batch + m * s.src_stride + k)];
      }
    }
  }
  function(s, src.data(), dst.data());
  EXPECT_EQ(dst, expected) << "B " << s.B << " M " << s.M << " K " << s.K << " strides "
                           << s.src_stride << " " << s.dst_stride;
}

TEST_P(TransposeTest, EverySizeDense) {
  for (int64_t rows = 1; rows <= 70; ++rows) {
    for (int64_t columns = 1; columns <= 40; ++columns) {
      check({.M = rows, .src_stride = columns, .K = columns, .dst_stride = rows},
            GetParam().function);
    }
  }
}

TEST_P(TransposeTest, Strided) {
  for (const int64_t rows : {1, 2, 3, 4, 5, 31, 32, 33, 49, 196}) {
    for (const int64_t columns : {1, 2, 15, 16, 17, 29, 58, 116}) {
      check({.M = rows, .src_stride = columns + 5, .K = columns, .dst_stride = rows + 3},
            GetParam().function);
    }
  }
}

TEST_P(TransposeTest, ChannelShuffles) {
  for (int64_t groups = 1; groups <= 9; ++groups) {
    for (int64_t columns = 1; columns <= 50; ++columns) {
      const int64_t channels = groups * columns;
      check({.B = 3,
             .src_batch = channels,
             .dst_batch = channels,
             .M = groups,
             .src_stride = columns,
             .K = columns,
             .dst_stride = groups},
            GetParam().function);
    }
  }
}

// Ranges as several threads would get them, run one after another.
void in_ranges(int64_t begin, int64_t end, int64_t grain, const RangeBody& body) {
  const int64_t step = std::max<int64_t>(grain, (end - begin) / 7);
  for (int64_t i = begin; i < end; i += step) {
    body(i, std::min(end, i + step));
  }
}

TEST(Transpose, LargeMatricesAndBatches) {
  set_parallel_for(in_ranges, [] { return 7; });
  const auto run = [](const Transpose& shape, const uint8_t* src, uint8_t* dst) {
    transpose_bytes(shape, src, dst);
  };
  check({.M = 784, .src_stride = 301, .K = 301, .dst_stride = 784}, run);
  check({.B = 1000,
         .src_batch = 120,
         .dst_batch = 121,
         .M = 2,
         .src_stride = 60,
         .K = 60,
         .dst_stride = 2},
        run);
  check({.B = 2,
         .src_batch = 58,
         .dst_batch = 784,
         .M = 784,
         .src_stride = 116,
         .K = 58,
         .dst_stride = 2 * 784},
        run);
  set_parallel_for(
      [](int64_t begin, int64_t end, int64_t, const RangeBody& body) { body(begin, end); },
      [] { return 1; });
}

TEST(TransposeList, EndsInRef) { EXPECT_EQ(transpose_kernels().back().isa, Isa::ref); }

}  // namespace
}  // namespace cpuaccel::kernels
