#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "guarded.h"
#include "kernel_rows.h"
#include "kernels/qattention/qattention.h"
#include "threads.h"

namespace cpuaccel::kernels {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

size_t size(int64_t count) { return static_cast<size_t>(count); }

// How heads lie: within positions, as a linear layer writes them; one head after the other; or with
// gaps between all elements.
enum class Lie : uint8_t { within, apart, gaps };

struct Problem {
  int64_t N = 2, H = 3, L = 8, S = 8, E = 8;
  Lie lie = Lie::within;
  bool transposed_keys = false, transposed_values = false;  // columns are contiguous
  ByteQuantizer query_q{0.031f, 121}, key_q{0.027f, 140}, value_q{0.02f, 117};
  ByteQuantizer weight_q{1.0f / 255, 0}, dst_q{0.01f, 131};
  float scale = 0.06f;
  GuardedVector<uint8_t> query{}, key{}, value{};
  GuardedVector<float> mask{};  // L x S of every head, or empty

  Problem& fill(unsigned seed) {
    std::mt19937 random(seed);
    const auto bytes = [&](int64_t rows) {
      GuardedVector<uint8_t> result(size(N * H * rows * E));
      std::generate(result.begin(), result.end(),
                    [&] { return static_cast<uint8_t>(random() >> 13); });
      return result;
    };
    query = bytes(L);
    key = bytes(S);
    value = bytes(S);
    return *this;
  }

  template <typename T>
  HeadMatrix<T> matrix(T* data, int64_t rows, bool transposed = false) const {
    if (transposed) {
      return {data, H * rows * E, rows * E, 1, rows};
    }
    if (lie == Lie::gaps) {
      return {data, rows * H * E, 1, H * E, H};
    }
    return lie == Lie::within ? HeadMatrix<T>{data, rows * H * E, E, H * E, 1}
                              : HeadMatrix<T>{data, H * rows * E, rows * E, E, 1};
  }
  template <typename T>
  HeadMatrix<T> dst(T* data) const {
    return {data, L * H * E, E, H * E, 1};
  }
  HeadMatrix<const uint8_t> keys() const { return matrix(key.data(), S, transposed_keys); }
  HeadMatrix<const uint8_t> values() const { return matrix(value.data(), S, transposed_values); }

  QattentionCall call() const {
    QattentionCall result;
    result.N = N, result.H = H, result.L = L, result.S = S, result.E = E;
    result.query = matrix(query.data(), L);
    result.key = keys();
    result.value = values();
    if (!mask.empty()) {
      result.mask = {mask.data(), 0, 0, S, 1};
    }
    result.query_quantizer = query_q, result.key_quantizer = key_q;
    result.value_quantizer = value_q, result.weight_quantizer = weight_q;
    result.dst_quantizer = dst_q;
    result.scale = scale;
    return result;
  }

  GuardedVector<float> run(QattentionFunction* row) const {
    GuardedVector<float> result(query.size());
    auto now = call();
    now.dst_f32 = dst(result.data());
    qattention(now, row);
    return result;
  }

  GuardedVector<uint8_t> run_to_bytes(QattentionFunction* row) const {
    GuardedVector<uint8_t> result(query.size());
    auto now = call();
    now.dst_u8 = dst(result.data());
    qattention(now, row);
    return result;
  }

  static double real(const HeadMatrix<const uint8_t>& of, const ByteQuantizer& q, int64_t n,
                     int64_t h, int64_t row, int64_t column) {
    return (of.at(n, h, row)[column * of.column_stride] - q.zero_point) *
           static_cast<double>(q.scale);
  }

  struct Weights {
    GuardedVector<double> values;
    std::vector<bool> near_tie;  // f32 may round to the other neighbor
  };

  Weights weights(int64_t n, int64_t h, int64_t l) const {
    GuardedVector<double> scores(size(S));
    for (int64_t s = 0; s < S; ++s) {
      double sum = 0;
      for (int64_t e = 0; e < E; ++e) {
        sum += real(matrix(query.data(), L), query_q, n, h, l, e) * real(keys(), key_q, n, h, s, e);
      }
      scores[size(s)] = sum * static_cast<double>(scale) +
                        (mask.empty() ? 0.0 : static_cast<double>(mask[size(l * S + s)]));
    }
    const double max = *std::max_element(scores.begin(), scores.end());
    double total = 0;
    for (auto& score : scores) {
      score = max == -INFINITY ? 0.0 : std::exp(score - max);
      total += score;
    }
    Weights result;
    for (const double score : scores) {
      const double quanta = total == 0 ? 0 : score / total / static_cast<double>(weight_q.scale);
      const double code = std::clamp(std::nearbyint(quanta) + weight_q.zero_point, 0.0, 255.0);
      result.values.push_back((code - weight_q.zero_point) * static_cast<double>(weight_q.scale));
      const double from_tie = std::fabs(quanta - std::floor(quanta) - 0.5);
      result.near_tie.push_back(from_tie < 1e-5 * (1 + quanta) * (1 + std::fabs(max)));
    }
    return result;
  }

  void check(QattentionFunction* row) const {
    const auto f32 = run(row);
    const auto bytes = run_to_bytes(row);
    for (int64_t n = 0; n < N; ++n) {
      for (int64_t h = 0; h < H; ++h) {
        for (int64_t l = 0; l < L; ++l) {
          check_row(f32, bytes, n, h, l);
        }
      }
    }
  }

  void check_row(const GuardedVector<float>& f32, const GuardedVector<uint8_t>& bytes, int64_t n,
                 int64_t h, int64_t l) const {
    const auto expected = weights(n, h, l);
    for (int64_t e = 0; e < E; ++e) {
      double sum = 0, tolerance = 1e-5;
      for (int64_t s = 0; s < S; ++s) {
        const double v = real(values(), value_q, n, h, s, e);
        sum += expected.values[size(s)] * v;
        tolerance += 1e-6 * expected.values[size(s)] * std::fabs(v);
        tolerance +=
            expected.near_tie[size(s)] ? static_cast<double>(weight_q.scale) * std::fabs(v) : 0.0;
      }
      const float result = dst(f32.data()).at(n, h, l)[e];
      ASSERT_NEAR(result, sum, tolerance) << "n " << n << ", h " << h << ", l " << l << ", e " << e;
      uint8_t code = 0;
      quantize_ref(&result, &code, 1, quantize_by(1.0f / dst_q.scale, dst_q.zero_point));
      ASSERT_EQ(dst(bytes.data()).at(n, h, l)[e], code);
    }
  }
};

class QattentionTest : public testing::TestWithParam<KernelRow<QattentionFunction>> {};

INSTANTIATE_TEST_SUITE_P(Rows, QattentionTest, testing::ValuesIn(usable_rows(qattention_kernels())),
                         RowName());

// Fewer and more than a panel of queries, and sizes that neither vectors nor four bytes divide.
TEST_P(QattentionTest, Shapes) {
  for (const int64_t L : {1, 7, 33, 100}) {
    for (const int64_t S : {1, 5, 40, 257}) {
      Problem problem{.L = L, .S = S, .E = S % 2 == 0 ? 64 : 9};
      problem.fill(1).check(GetParam().function);
    }
  }
}

// So many keys that the fewest possible queries are computed at once.
TEST_P(QattentionTest, ManyKeys) {
  Problem problem{.N = 1, .H = 1, .L = 19, .S = 2100, .E = 16, .scale = 0.2f};
  problem.weight_q = {1.0f / 2550, 0};
  problem.fill(2).check(GetParam().function);
}

TEST_P(QattentionTest, HowHeadsLie) {
  for (const auto lie : {Lie::within, Lie::apart, Lie::gaps}) {
    Problem problem{.L = 10, .S = 21, .E = 18, .lie = lie};
    problem.fill(3).check(GetParam().function);
    problem.transposed_keys = true;
    problem.check(GetParam().function);
    problem.transposed_values = true;
    problem.check(GetParam().function);
  }
}

TEST_P(QattentionTest, ZeroPoints) {
  for (const int32_t zero_point : {0, 128, 255}) {
    Problem problem{.L = 9, .S = 30, .E = 12};
    problem.query_q.zero_point = zero_point;
    problem.key_q.zero_point = 255 - zero_point;
    problem.value_q.zero_point = zero_point;
    problem.weight_q = {1.0f / 150, zero_point / 3};
    problem.scale = 0.02f;
    problem.fill(4).check(GetParam().function);
  }
}

TEST_P(QattentionTest, MasksAndRowsOfNothing) {
  Problem problem{.L = 20, .S = 130};
  problem.fill(5);
  problem.mask.assign(size(20 * 130), 0.0f);
  for (int64_t s = 0; s < 130; ++s) {
    problem.mask[size(s)] = -kInfinity;                         // row 0: all
    problem.mask[size(130 + s)] = s < 100 ? -kInfinity : 0.5f;  // row 1: late
    problem.mask[size(2 * 130 + s)] = s >= 30 ? -1e30f : 0.5f;  // row 2: early
    problem.mask[size(3 * 130 + s)] = -3.4028235e38f;           // row 3: the lowest float
  }
  problem.check(GetParam().function);
}

TEST_P(QattentionTest, MasksThatBroadcast) {
  Problem problem{.L = 12, .S = 33};
  problem.fill(6);
  const GuardedVector<float> column(12, 0.7f);  // the same for all keys: changes nothing
  const auto expected = problem.run(GetParam().function);
  GuardedVector<float> result(expected.size());
  auto call = problem.call();
  call.mask = {column.data(), 0, 0, 1, 0};
  call.dst_f32 = problem.dst(result.data());
  qattention(call, GetParam().function);
  for (size_t i = 0; i < result.size(); ++i) {
    ASSERT_NEAR(result[i], expected[i], 0.02 * 0.02 + 0.02);
  }
}

// The bits do not depend on how the work is split.
TEST_P(QattentionTest, Threads) {
  Problem problem{.N = 2, .H = 2, .L = 150, .S = 70, .E = 32};
  problem.fill(7);
  const auto alone = problem.run(GetParam().function);
  const Threads threads(3);
  EXPECT_EQ(problem.run(GetParam().function), alone);
}

TEST(QattentionList, EndsInRef) { EXPECT_EQ(qattention_kernels().back().isa, Isa::ref); }

TEST(QattentionList, SumsThatLeaveInt32DoNotFit) {
  EXPECT_TRUE(qattention_fits(32767, 128));
  EXPECT_FALSE(qattention_fits(128, 40000));
  EXPECT_FALSE(qattention_fits(40000, 128));
}

}  // namespace
}  // namespace cpuaccel::kernels
