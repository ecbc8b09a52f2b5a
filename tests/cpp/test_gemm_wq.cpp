#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <stdexcept>
#include <utility>
#include <vector>

#include "base/isa.h"
#include "emulated.h"
#include "guarded.h"
#include "kernel_rows.h"
#include "kernels/gemm/half.h"
#include "kernels/gemm_wq/byte_rows.h"
#include "kernels/gemm_wq/few_rows.h"
#include "kernels/gemm_wq/gemm_wq.h"
#include "kernels/gemm_wq/header.h"
#include "kernels/gemm_wq/pack.h"
#include "threads.h"
#include "wq_source.h"

namespace cpuaccel::kernels {
namespace {

class GemmWqTest : public testing::TestWithParam<KernelRow<GemmWqFunction>> {};

INSTANTIATE_TEST_SUITE_P(Rows, GemmWqTest, testing::ValuesIn(usable_rows(gemm_wq_kernels())),
                         RowName());

// Multiplies by `run`, and compares with sums in f64. bytes: whether the rows become bytes.
template <typename Run>
void check(std::mt19937& random, const WqSource& source, int64_t M, DataType type, bool biased,
           bool bytes, const Run& run) {
  const int64_t N = source.N, K = source.K, src_stride = K + 3, dst_stride = N + 2;
  const auto size = index(data_type_size(type));
  std::normal_distribution<float> normal(0.0f, 1.0f);
  GuardedVector<uint8_t> src(index(M * src_stride - (M > 0 ? 3 : 0)) * size);
  GuardedVector<uint8_t> dst(index(M * dst_stride) * size);
  GuardedVector<float> bias(index(N));
  std::ranges::generate(bias, [&] { return normal(random); });
  for (int64_t m = 0; m < M; ++m) {
    for (int64_t k = 0; k < K; ++k) {
      float_to_element(normal(random), src.data(), type, m * src_stride + k);
    }
  }
  const WqWeights weights = source.packed();
  run({.weights = &weights,
       .M = M,
       .src = src.data(),
       .src_type = type,
       .src_stride = src_stride,
       .dst = {.data = dst.data(), .type = type, .stride = dst_stride},
       .bias = biased ? bias.data() : nullptr});
  const double own = type == DataType::f32 ? 0x1p-23 : type == DataType::bf16 ? 0x1p-8 : 0x1p-10;
  const bool rounded = M > kFewRows && type == DataType::bf16 && has_bf16_arithmetic();
  const double of_weights = rounded ? 0x1p-8 : 0.0;
  for (int64_t n = 0; n < N; ++n) {
    for (int64_t m = 0; m < M; ++m) {
      double expected = biased ? static_cast<double>(bias[index(n)]) : 0.0;
      double terms = 0.0, products = 0.0, most = 0.0, units = 0.0;
      for (int64_t k = 0; k < K; ++k) {
        const double x =
            static_cast<double>(element_to_float(src.data(), type, m * src_stride + k));
        const WqSource::Term term = source.at(k, n);
        expected += x * term.weight;
        terms += std::abs(x) * term.error_unit;
        products += std::abs(x * term.weight);
        most = std::max(most, std::abs(x));
        units += term.error_unit;
      }
      const int64_t roundings = bytes ? 3 * (2 * source.groups + 7) : K + 3;
      const double of_bytes = bytes ? 0x1p-23 * most * units : 0.0;
      const double allowed = static_cast<double>(roundings) * 0x1p-24 * terms + of_bytes +
                             of_weights * products + own * std::abs(expected) + 1e-7;
      ASSERT_NEAR(static_cast<double>(element_to_float(dst.data(), type, m * dst_stride + n)),
                  expected, allowed)
          << M << "x" << N << "x" << K << " at " << m << ", " << n << ", bits "
          << source.format.bits << ", group " << source.format.group;
    }
  }
}

void check(std::mt19937& random, const WqSource& source, int64_t M, DataType type, bool biased,
           GemmWqFunction* row) {
  const bool bytes = source.format.bits == 4 && M <= row().byte_rows;
  check(random, source, M, type, biased, bytes,
        [&](const GemmWqCall& call) { gemm_wq(call, row); });
}

TEST_P(GemmWqTest, EveryFormat) {
  std::mt19937 random(1);
  for (const WqFormat& format : wq_formats()) {
    for (const int64_t M : {1, 3, 7, 20, 35}) {
      check(random, WqSource(random, format, 70, 96), M, DataType::f32, true, GetParam().function);
    }
  }
}

TEST_P(GemmWqTest, AllSizes) {
  std::mt19937 random(2);
  for_wq_sizes(random, [&](const WqSource& source) {
    for (const int64_t M : some_of<int64_t>({1, 4, 2, 5, 8, 9, 17, 40}, 2)) {
      check(random, source, M, DataType::f32, source.K % 2 == 0, GetParam().function);
    }
  });
}

TEST_P(GemmWqTest, EveryType) {
  std::mt19937 random(3);
  for (const DataType type : {DataType::f32, DataType::bf16, DataType::f16}) {
    for (const int64_t M : {1, 6, 30, 33}) {
      check(random, WqSource(random, {.group = 16}, 45, 80), M, type, true, GetParam().function);
    }
  }
}

TEST_P(GemmWqTest, NothingToAddOrToDo) {
  std::mt19937 random(4);
  check(random, WqSource(random, {}, 20, 0), 3, DataType::f32, true, GetParam().function);
  check(random, WqSource(random, {}, 20, 0), 40, DataType::f32, false, GetParam().function);
  check(random, WqSource(random, {}, 20, 64), 0, DataType::f32, true, GetParam().function);
  check(random, WqSource(random, {}, 0, 64), 4, DataType::f32, true, GetParam().function);
}

TEST_P(GemmWqTest, NansStayInTheirRows) {
  std::mt19937 random(5);
  const WqSource source(random, {.zeros = WqZeros::integers}, 40, 64);
  const WqWeights weights = source.packed();
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    for (const int64_t M : {2, 3, 12, 36}) {
      GuardedVector<float> src(index(M * 64), 1.0f), dst(index(M * 40));
      src[64 + 5] = bad;
      gemm_wq({.weights = &weights,
               .M = M,
               .src = src.data(),
               .src_stride = 64,
               .dst = {.data = dst.data(), .stride = 40}},
              GetParam().function);
      for (int64_t i = 0; i < M * 40; ++i) {
        ASSERT_EQ(std::isfinite(dst[index(i)]), i / 40 != 1) << i;
      }
    }
  }
}

TEST_P(GemmWqTest, AppliesTheFunctionAndOperandsOfDst) {
  std::mt19937 random(11);
  const WqSource source(random, {}, 150, 64);
  const WqWeights weights = source.packed();
  for (const DataType type : {DataType::f32, DataType::bf16}) {
    for (const int64_t M : {1, 11, 40}) {
      GuardedVector<float> src(index(M * 64));
      std::normal_distribution<float> normal(0.0f, 1.0f);
      std::ranges::generate(src, [&] { return normal(random); });
      check_dst(random, M, 150, type, [&](const WqDst& dst) {
        gemm_wq({.weights = &weights, .M = M, .src = src.data(), .src_stride = 64, .dst = dst},
                GetParam().function);
      });
    }
  }
}

TEST_P(GemmWqTest, ThreadsGiveTheSameBits) {
  std::mt19937 random(6);
  const WqSource source(random, {}, 300, 512);
  const WqWeights weights = source.packed();
  for (const int64_t M : {1, 5, 20, 40}) {
    GuardedVector<float> src(index(M * 512));
    std::normal_distribution<float> normal(0.0f, 1.0f);
    std::ranges::generate(src, [&] { return normal(random); });
    std::vector<float> results[2];
    for (const int threads : {1, 5}) {
      const Threads count(threads);
      GuardedVector<float> dst(index(M * 300));
      gemm_wq({.weights = &weights,
               .M = M,
               .src = src.data(),
               .src_stride = 512,
               .dst = {.data = dst.data(), .stride = 300}},
              GetParam().function);
      results[threads == 1 ? 0 : 1].assign(dst.begin(), dst.end());
    }
    EXPECT_EQ(results[0], results[1]);
  }
}

class ByteRowsTest : public testing::TestWithParam<KernelRow<QgemmWqFunction>> {};

INSTANTIATE_TEST_SUITE_P(Rows, ByteRowsTest, testing::ValuesIn(usable_rows(qgemm_wq_kernels())),
                         RowName());

TEST_P(ByteRowsTest, EveryFormatAndSize) {
  std::mt19937 random(8);
  const auto check_source = [&](const WqSource& source, int64_t M, DataType type) {
    check(random, source, M, type, true, true,
          [&](const GemmWqCall& call) { ASSERT_TRUE(byte_rows(call, GetParam().function())); });
  };
  for (const WqFormat& format : wq_formats()) {
    for (const int64_t M : {1, 3}) {
      check_source(WqSource(random, format, 70, 96), M, DataType::f32);
    }
  }
  for_wq_sizes(random, [&](const WqSource& source) { check_source(source, 1, DataType::f32); });
  for (const DataType type : {DataType::bf16, DataType::f16}) {
    check_source(WqSource(random, {}, 45, 64), 2, type);
  }
}

TEST_P(ByteRowsTest, LargestAndSmallestRows) {
  std::mt19937 random(9);
  const WqSource source(random, {}, 33, 64);
  const WqWeights weights = source.packed();
  const float inf = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float small = std::numeric_limits<float>::min();
  // The value of one x, the others being zero, and whether bytes hold it.
  for (const auto& [value, done] : {std::pair{0.0f, true},
                                    {-0.0f, true},
                                    {1e30f, true},
                                    {-1e30f, true},
                                    {1e-30f, true},
                                    {small, false},
                                    {small / 4, false},
                                    {inf, false},
                                    {-inf, false},
                                    {nan, false}}) {
    GuardedVector<float> src(index(2 * 64)), dst(index(2 * 33), 5.0f);
    src[64 + 7] = value;
    const bool is_done = byte_rows({.weights = &weights,
                                    .M = 2,
                                    .src = src.data(),
                                    .src_stride = 64,
                                    .dst = {.data = dst.data(), .stride = 33}},
                                   GetParam().function());
    ASSERT_EQ(is_done, done) << value;
    for (int64_t n = 0; n < 33; ++n) {
      const double expected = static_cast<double>(value) * source.at(7, n).weight;
      ASSERT_EQ(dst[index(n)], done ? 0.0f : 5.0f);
      if (done) {
        ASSERT_NEAR(static_cast<double>(dst[index(33 + n)]), expected,
                    0x1p-20 * std::abs(static_cast<double>(value)) * source.at(7, n).error_unit);
      }
    }
  }
}

TEST(GemmWqList, EndsInRef) { EXPECT_EQ(gemm_wq_kernels().back().isa, Isa::ref); }

TEST(PackPlain, ReadsStridesAndChecksTheRange) {
  for (const auto& [bits, low] : {std::pair{4, -8}, std::pair{8, -128}}) {
    for (const WqZeros kind : {WqZeros::none, WqZeros::integers, WqZeros::reals}) {
      const int64_t N = 35, K = 16;
      GuardedVector<int8_t> codes(index(N * K));  // K x N
      GuardedVector<float> scales(index(N * 2)), zeros(index(N * 2));
      for (int64_t i = 0; i < N * K; ++i) {
        codes[index(i)] = static_cast<int8_t>(low + i % (-2 * low));
      }
      for (int64_t i = 0; i < N * 2; ++i) {
        scales[index(i)] = static_cast<float>(i + 1);
        zeros[index(i)] = static_cast<float>(low + i % (-2 * low));
      }
      const WqPlain plain{.codes = codes.data(),
                          .n_stride = 1,
                          .k_stride = N,
                          .scales = scales.data(),
                          .zeros = zeros.data()};
      WqWeights weights({.bits = bits, .group = 8, .zeros = kind}, N, K);
      ASSERT_TRUE(pack_plain(plain, weights));
      std::vector<float> column(index(K));
      for (int64_t n = 0; n < N; ++n) {
        weights.dequantize(n, column.data());
        for (int64_t k = 0; k < K; ++k) {
          const size_t group = index(n * 2 + k / 8);
          const float zero = kind == WqZeros::none ? 0.0f : zeros[group];
          const float expected = (codes[index(k * N + n)] - zero) * scales[group];
          ASSERT_NEAR(column[index(k)], expected, 1e-6f * 256.0f * scales[group]);
        }
      }
      zeros[3] = static_cast<float>(-low);
      EXPECT_EQ(pack_plain(plain, weights), kind != WqZeros::integers);
      zeros[3] = 0.0f;
      codes[5] = static_cast<int8_t>(bits == 4 ? 8 : 0);
      EXPECT_EQ(pack_plain(plain, weights), bits == 8);
    }
  }
}

TEST(WqWeights, DequantizeGivesTheFormula) {
  std::mt19937 random(7);
  for (const WqFormat& format : wq_formats()) {
    const WqSource source(random, format, 37, 64);
    const WqWeights weights = source.packed();
    std::vector<float> column(64);
    for (int64_t n = 0; n < 37; ++n) {
      weights.dequantize(n, column.data());
      for (int64_t k = 0; k < 64; ++k) {
        const double weight = source.at(k, n).weight;
        ASSERT_NEAR(static_cast<double>(column[index(k)]), weight, std::abs(weight) * 0x1p-24);
      }
    }
  }
}

TEST(WqWeights, FormatsThatDoNotExist) {
  EXPECT_THROW(WqWeights({.bits = 3}, 4, 32), std::invalid_argument);
  EXPECT_THROW(WqWeights({.group = 12}, 4, 24), std::invalid_argument);
  EXPECT_THROW(WqWeights({.group = 0}, 4, 32), std::invalid_argument);
  EXPECT_THROW(WqWeights({.group = 32}, 4, 48), std::invalid_argument);
  EXPECT_THROW(WqWeights({.group = 32}, -1, 32), std::invalid_argument);
  EXPECT_NO_THROW(WqWeights({.group = 12}, 4, 12));
}

// Bytes as a tensor or a file has them.
std::vector<std::byte> with_header(const WqFormat& format, int64_t N, int64_t K) {
  const WqHeader header = wq_header(format, N, K);
  std::vector<std::byte> bytes(sizeof(header) + WqWeights(format, N, K, nullptr).bytes());
  std::memcpy(bytes.data(), &header, sizeof(header));
  return bytes;
}

WqWeights read(std::vector<std::byte>& bytes) {
  return weights_behind_header(bytes.data(), static_cast<int64_t>(bytes.size()));
}

TEST(WqHeader, TellsEveryFormat) {
  for (const WqFormat& format : wq_formats()) {
    for (const int64_t N : {0, 1, 33}) {
      std::vector<std::byte> bytes = with_header(format, N, 64);
      const WqWeights weights = read(bytes);
      EXPECT_EQ(weights.format(), format);
      EXPECT_EQ(weights.N(), N);
      EXPECT_EQ(weights.K(), 64);
      EXPECT_EQ(weights.panel(0), bytes.data() + sizeof(WqHeader));
    }
  }
}

TEST(WqHeader, RefusesOtherBytes) {
  const std::vector<std::byte> good = with_header({}, 40, 64);
  const auto refuses = [&](auto change) {
    std::vector<std::byte> bytes = good;
    change(bytes);
    EXPECT_THROW(read(bytes), std::invalid_argument);
  };
  const auto of_header = [&](auto change) {
    refuses([&](std::vector<std::byte>& bytes) {
      WqHeader header;
      std::memcpy(&header, bytes.data(), sizeof(header));
      change(header);
      std::memcpy(bytes.data(), &header, sizeof(header));
    });
  };
  refuses([](auto& bytes) { bytes.clear(); });
  refuses([](auto& bytes) { bytes.resize(63); });
  refuses([](auto& bytes) { bytes.pop_back(); });
  refuses([](auto& bytes) { bytes.push_back({}); });
  of_header([](WqHeader& header) { header.magic[0] = 'x'; });
  of_header([](WqHeader& header) { header.version = 2; });
  of_header([](WqHeader& header) { header.bits = 5; });
  of_header([](WqHeader& header) { header.scales = 3; });
  of_header([](WqHeader& header) { header.zeros = 9; });
  of_header([](WqHeader& header) { header.group = 0; });
  of_header([](WqHeader& header) { header.N = -1; });
  for (const int64_t large : {int64_t{1} << 31, int64_t{1} << 62}) {
    of_header([&](WqHeader& header) { header.N = large; });
    of_header([&](WqHeader& header) { header.K = large; });
  }
  // The size of the panels overflows.
  of_header([](WqHeader& header) { header.N = header.K = header.group = (int64_t{1} << 31) - 8; });
}

}  // namespace
}  // namespace cpuaccel::kernels
