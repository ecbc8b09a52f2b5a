#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <utility>

#include "emulated.h"
#include "guarded.h"
#include "kernel_rows.h"
#include "kernels/attention/attention.h"
#include "kernels/gemm/half.h"
#include "threads.h"

namespace cpuaccel::kernels {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Tensors of N x L x H x E, the layout of heads after a linear layer.
struct Problem {
  int64_t N = 1, H = 2, L = 8, S = 8, E = 8;
  float scale = 0.4f;
  bool causal = false, bf16 = false;
  int64_t group = 1, past = 0, window = 0;
  float soft_cap = 0.0f;
  GuardedVector<float> sinks{};                          // of each head, or empty
  DataType kept = DataType::f32;                         // of keys and values
  GuardedVector<float> query{}, key{}, value{}, mask{};  // mask: L x S of every head, or empty
  // A mask in two parts of bf16, L x S / width and L x width.
  int64_t width = 0;
  GuardedVector<uint16_t> mask_rows{}, mask_columns{};

  Problem& fill(unsigned seed) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    const auto floats = [&](int64_t count) {
      GuardedVector<float> result(static_cast<size_t>(count));
      std::generate(result.begin(), result.end(), [&] { return normal(random); });
      return result;
    };
    query = floats(N * L * H * E);
    key = floats(N * S * H / group * E);
    value = floats(N * S * H / group * E);
    if (width != 0) {
      const auto numbers = [&](int64_t count) {
        GuardedVector<uint16_t> result(static_cast<size_t>(count));
        std::generate(result.begin(), result.end(), [&] { return float_to_bf16(normal(random)); });
        return result;
      };
      mask_rows = numbers(L * S / width);
      mask_columns = numbers(L * width);
      mask.resize(size(L * S));
      for (int64_t i = 0; i < L * S; ++i) {
        mask[size(i)] = bf16_to_float(mask_rows[size(i / width)]) +
                        bf16_to_float(mask_columns[size(i / S * width + i % width)]);
      }
    }
    if (kept != DataType::f32) {
      keep(key, kept_key, key_scales);
      keep(value, kept_value, value_scales);
    }
    return *this;
  }

  // Keys or values as `kept`, and the scale of each position if they are s8. The floats become
  // what these stand for.
  GuardedVector<uint16_t> kept_key{}, kept_value{};
  GuardedVector<float> key_scales{}, value_scales{};
  void keep(GuardedVector<float>& from, GuardedVector<uint16_t>& to,
            GuardedVector<float>& scales) const {
    const auto count = static_cast<int64_t>(from.size());
    to = GuardedVector<uint16_t>(size(kept == DataType::s8 ? (count + 1) / 2 : count));
    scales = GuardedVector<float>(size(kept == DataType::s8 ? count / E : 0));
    for (int64_t i = 0; i < count; ++i) {
      float& x = from[size(i)];
      if (kept == DataType::s8) {
        float& scale_of_row = scales[size(i / E)];
        scale_of_row = 0.02f + 0.001f * static_cast<float>(i / E % 7);
        const auto byte = static_cast<int8_t>(std::clamp(x / scale_of_row, -127.0f, 127.0f));
        reinterpret_cast<int8_t*>(to.data())[i] = byte;
        x = scale_of_row * static_cast<float>(byte);
      } else if (kept == DataType::bf16) {
        to[size(i)] = float_to_bf16(x);
        x = bf16_to_float(to[size(i)]);
      } else {
        to[size(i)] = float_to_f16(x);
        x = f16_to_float(to[size(i)]);
      }
    }
  }

  AttentionMatrix matrix(const GuardedVector<float>& from, int64_t rows) const {
    return {from.data(), DataType::f32, rows * H * E, E, H * E, 1};
  }
  AttentionMatrix kept_matrix(const GuardedVector<float>& floats,
                              const GuardedVector<uint16_t>& other) const {
    const void* const data = kept == DataType::f32 ? static_cast<const void*>(floats.data())
                                                   : static_cast<const void*>(other.data());
    return {data, kept, S * H / group * E, E, H / group * E, 1};
  }
  AttentionScales scales_of(const GuardedVector<float>& from) const {
    return {from.empty() ? nullptr : from.data(), S * H / group, 1, H / group};
  }

  struct Result {
    GuardedVector<float> dst, logsumexp;
  };
  Result run(AttentionFunction* row) const {
    Result result{GuardedVector<float>(query.size()), GuardedVector<float>(query.size() / size(E))};
    AttentionCall call;
    call.N = N, call.H = H, call.L = L, call.S = S, call.E = E;
    call.query = matrix(query, L);
    call.group = group, call.past = past, call.window = window;
    call.key = kept_matrix(key, kept_key);
    call.value = kept_matrix(value, kept_value);
    call.key_scales = scales_of(key_scales);
    call.value_scales = scales_of(value_scales);
    if (!mask.empty()) {
      call.mask = {mask.data(), DataType::f32, 0, 0, S, 1};
    }
    if (width != 0) {
      call.mask = {mask_rows.data(), DataType::bf16, 0, 0, S / width, 1};
      call.mask_columns = {mask_columns.data(), DataType::bf16, 0, 0, width, 1};
      call.mask_width = width;
    }
    call.dst = {result.dst.data(), DataType::f32, L * H * E, E, H * E};
    call.logsumexp = {result.logsumexp.data(), DataType::f32, L * H, 1, H};
    call.scale = scale, call.causal = causal, call.bf16 = bf16;
    call.soft_cap = soft_cap;
    call.sinks = sinks.empty() ? nullptr : sinks.data();
    attention(call, row);
    return result;
  }

  static size_t size(int64_t count) { return static_cast<size_t>(count); }
  double element(const GuardedVector<float>& from, int64_t rows, int64_t n, int64_t h, int64_t row,
                 int64_t e) const {
    return rounded(from[size(((n * rows + row) * H + h) * E + e)]);
  }
  double kept_element(const GuardedVector<float>& from, int64_t n, int64_t h, int64_t row,
                      int64_t e) const {
    return rounded(from[size(((n * S + row) * (H / group) + h / group) * E + e)]);
  }
  double rounded(float x) const { return bf16 ? bf16_to_float(float_to_bf16(x)) : x; }

  // Scores of a query, minus infinity where a key is masked.
  GuardedVector<double> scores(int64_t n, int64_t h, int64_t l) const {
    GuardedVector<double> result(size(S));
    for (int64_t s = 0; s < S; ++s) {
      double sum = 0;
      for (int64_t e = 0; e < E; ++e) {
        sum += element(query, L, n, h, l, e) * kept_element(key, n, h, s, e);
      }
      sum *= static_cast<double>(scale);
      if (soft_cap > 0.0f) {
        const auto cap = static_cast<double>(soft_cap);
        sum = cap * std::tanh(sum / cap);
      }
      sum += mask.empty() ? 0.0 : static_cast<double>(mask[size(l * S + s)]);
      const bool hidden = causal && (s > l + past || (window > 0 && s <= l + past - window));
      result[size(s)] = hidden ? -INFINITY : sum;
    }
    return result;
  }

  void check(AttentionFunction* row) const {
    const Result result = run(row);
    const double tolerance = bf16 ? 2e-2 : kept == DataType::s8 ? 1e-4 : 2e-5;
    for (int64_t n = 0; n < N; ++n) {
      for (int64_t h = 0; h < H; ++h) {
        for (int64_t l = 0; l < L; ++l) {
          check_row(result, n, h, l, tolerance);
        }
      }
    }
  }

  void check_row(const Result& result, int64_t n, int64_t h, int64_t l, double tolerance) const {
    GuardedVector<double> weights = scores(n, h, l);
    const double sink = sinks.empty() ? -INFINITY : static_cast<double>(sinks[size(h)]);
    const double max = std::max(sink, *std::max_element(weights.begin(), weights.end()));
    tolerance *= max == -INFINITY ? 1 : 1 + std::fabs(max);  // f32 scores are less exact if large
    double sum = sink == -INFINITY ? 0.0 : std::exp(sink - max);
    for (auto& weight : weights) {
      weight = max == -INFINITY ? 0.0 : std::exp(weight - max);
      sum += weight;
    }
    const int64_t at = (n * L + l) * H + h;
    ASSERT_NEAR(result.logsumexp[size(at)], sum == 0 ? 0.0 : max + std::log(sum), tolerance);
    for (int64_t e = 0; e < E; ++e) {
      double expected = 0;
      for (int64_t s = 0; s < S; ++s) {
        expected += weights[size(s)] * kept_element(value, n, h, s, e);
      }
      expected = sum == 0 ? 0.0 : expected / sum;
      ASSERT_NEAR(result.dst[size(at * E + e)], expected, tolerance)
          << "n " << n << ", h " << h << ", l " << l << ", e " << e;
    }
  }
};

class AttentionTest : public testing::TestWithParam<KernelRow<AttentionFunction>> {};

INSTANTIATE_TEST_SUITE_P(Rows, AttentionTest, testing::ValuesIn(usable_rows(attention_kernels())),
                         RowName());

// Fewer and more than a block of queries and of keys, and sizes that no vector width divides.
TEST_P(AttentionTest, Shapes) {
  for (const int64_t L : {1, 7, 33, 300}) {
    for (const int64_t S : some_of<int64_t>({40, 1, 5, 257, 600}, 3)) {
      Problem problem{.N = 2, .H = 3, .L = L, .S = S, .E = S % 2 == 0 ? 16 : 9};
      problem.fill(1).check(GetParam().function);
    }
  }
}

// Few queries use keys and values that are not packed: floats beside bf16, heads wider than two
// vectors.
TEST_P(AttentionTest, FewQueries) {
  for (const bool bf16 : {false, true}) {
    if (bf16 && !has_bf16_arithmetic()) {
      continue;
    }
    for (const int64_t L : some_of<int64_t>({1, 2, 3, 5, 6, 7, 8}, 2)) {
      for (const int64_t E : {5, 16, 33, 48, 64, 70, 128, 130}) {
        Problem problem{.L = L, .S = 77, .E = E, .bf16 = bf16};
        problem.fill(9).check(GetParam().function);
      }
    }
  }
}

// More keys than one block, and more heads than can hold their scores at once.
TEST_P(AttentionTest, FewQueriesOfManyKeysAndHeads) {
  Problem many_keys{.N = 1, .H = 3, .L = 7, .S = 4099, .E = 16};
  many_keys.fill(11).check(GetParam().function);
  Problem many_heads{.N = 3, .H = 13, .L = 2, .S = 700, .E = 17, .causal = true};
  many_heads.fill(12).check(GetParam().function);
  many_heads.causal = false;
  many_heads.check(GetParam().function);
}

TEST_P(AttentionTest, Causal) {
  for (const int64_t L : {1, 9, 270}) {
    for (const int64_t S : {1, 30, 520}) {
      Problem problem{.L = L, .S = S, .causal = true};
      problem.fill(2).check(GetParam().function);
    }
  }
}

// Heads of keys that serve several heads of queries: in rows of a step, in blocks of several heads,
// and in blocks of one head.
TEST_P(AttentionTest, GroupsOfHeads) {
  for (const int64_t L : {1, 2, 9, 60, 440}) {
    for (const int64_t group : {2, 7}) {
      if (L == 440 && group == 7) {
        continue;
      }
      const bool few = L < 60;
      Problem problem{.N = few ? 2 : 1, .H = few ? 2 * group : group, .L = L, .S = 450};
      problem.E = few ? 16 : 5, problem.group = group;
      problem.fill(13).check(GetParam().function);
      problem.causal = true;
      problem.past = 450 - L;
      problem.check(GetParam().function);
      problem.mask.assign(static_cast<size_t>(L * 450), 0.0f);
      std::fill_n(problem.mask.begin(), 40, -kInfinity);
      problem.check(GetParam().function);
    }
  }
}

// Rows of a step, with and without heads that share keys; keys in several pieces; packed blocks.
// Some rows have no keys; some sinks are larger than all scores.
TEST_P(AttentionTest, SoftCapsAndSinks) {
  for (const bool bf16 : {false, true}) {
    for (const int64_t L : {1, 2, 60}) {
      for (const int64_t group : {1, 2}) {
        for (const int64_t S : some_of<int64_t>({33, 2100, 700}, 2)) {
          Problem problem{.H = 4, .L = L, .S = S, .E = 16, .bf16 = bf16 && has_bf16_arithmetic()};
          problem.group = group, problem.soft_cap = 1.5f;
          problem.fill(21).check(GetParam().function);
          problem.sinks.assign({-1.0f, 30.0f, -kInfinity, 0.5f});
          problem.check(GetParam().function);
          problem.soft_cap = 0.0f, problem.causal = true, problem.window = 5;
          problem.past = S - L + 5;  // the last rows have no keys
          problem.check(GetParam().function);
        }
      }
    }
  }
}

// Keys of a cache, in 8 or 16 bits.
TEST_P(AttentionTest, SoftCapsAndSinksOfKeptKeys) {
  for (const DataType kept : {DataType::bf16, DataType::f16, DataType::s8}) {
    Problem problem{.H = 6, .L = 2, .S = 77, .E = 32, .soft_cap = 2.0f, .kept = kept};
    problem.group = 3;
    problem.sinks.assign({-1.0f, 3.0f, 0.0f, 0.5f, 9.0f, -2.0f});
    problem.fill(22).check(GetParam().function);
  }
}

// Windows shorter and longer than a block of keys, rows without keys, and keys before the first.
TEST_P(AttentionTest, Windows) {
  for (const int64_t L : {1, 3, 100, 500}) {
    for (const int64_t window : {1, 40, 600}) {
      for (const int64_t past : {0, 300, 1000}) {
        Problem problem{.H = 2, .L = L, .S = 800, .E = L <= 3 ? 16 : 3, .causal = true};
        problem.H = L <= 3 ? 2 : 1, problem.group = problem.H;
        problem.past = past, problem.window = window;
        problem.fill(14).check(GetParam().function);
      }
    }
  }
}

TEST_P(AttentionTest, KeptTypes) {
  for (const DataType kept : {DataType::f32, DataType::bf16, DataType::f16, DataType::s8}) {
    for (const int64_t group : {1, 4, 8}) {
      for (const int64_t E : {16, 33, 256}) {
        Problem problem{.N = 2, .H = group, .L = 2, .S = 300, .E = E, .kept = kept};
        problem.group = group;
        problem.fill(15).check(GetParam().function);
      }
    }
  }
}

// Each number of rows that meet a key together, and more; widths that leave a part of a step; and
// keys that are no multiple of eight. E = 528 is too wide for sums of 32 bits.
TEST_P(AttentionTest, GroupsOfEachSize) {
  for (const DataType kept : {DataType::f32, DataType::bf16, DataType::f16, DataType::s8}) {
    for (const int64_t group : {1, 2, 3, 4, 5, 6, 7, 8, 9, 13, 17}) {
      Problem problem{.H = 2 * group, .L = 1, .S = 45 + group % 4, .group = group, .kept = kept};
      problem.E = group == 3 ? 528 : std::array<int64_t, 3>{16, 48, 112}[problem.size(group % 3)];
      problem.fill(17).check(GetParam().function);
      problem.causal = true, problem.past = problem.S - 3, problem.window = 21;
      problem.check(GetParam().function);
      problem.mask.assign(problem.size(problem.S), 0.5f);
      std::fill_n(problem.mask.begin() + 20, 12, -kInfinity);
      problem.check(GetParam().function);
      problem.window = 1, problem.mask.assign(problem.size(problem.S), -kInfinity);
      problem.check(GetParam().function);
    }
  }
}

// Fewer keys than are multiplied together, for several queries of each head.
TEST_P(AttentionTest, GroupsOfFewKeys) {
  for (const DataType kept : {DataType::f32, DataType::bf16, DataType::f16, DataType::s8}) {
    for (const int64_t S : {1, 7, 9}) {
      Problem problem{.H = 3, .L = 3, .S = S, .E = 32, .causal = true, .group = 3, .kept = kept};
      problem.past = S - 2;
      problem.fill(18).check(GetParam().function);
    }
  }
}

TEST_P(AttentionTest, NanMakesItsRowOfAGroupNan) {
  for (const DataType kept : {DataType::f32, DataType::bf16, DataType::f16, DataType::s8}) {
    for (const int64_t group : {2, 4, 7}) {
      Problem problem{.H = group, .L = 1, .S = 40, .E = 16, .group = group, .kept = kept};
      problem.fill(19);
      problem.query[16] = std::nanf("");
      const auto result = problem.run(GetParam().function);
      for (int64_t h = 0; h < group; ++h) {
        EXPECT_EQ(std::isnan(result.dst[problem.size(h * 16 + 5)]), h == 1);
        EXPECT_EQ(std::isnan(result.logsumexp[problem.size(h)]), h == 1);
      }
    }
  }
}

// Threads share the keys of one head.
TEST_P(AttentionTest, KeysInParts) {
  for (const DataType kept : {DataType::f32, DataType::s8}) {
    Problem problem{.H = 7, .L = 1, .S = 3001, .E = 24, .group = 7, .kept = kept};
    problem.fill(16).check(GetParam().function);
    const auto expected = problem.run(GetParam().function).dst;
    {
      const Threads threads(3);
      const auto found = problem.run(GetParam().function).dst;
      EXPECT_TRUE(std::equal(expected.begin(), expected.end(), found.begin()));
    }
    problem.mask.assign(3001, 0.0f);
    std::fill_n(problem.mask.begin(), 1500, -kInfinity);  // the whole first part
    problem.check(GetParam().function);
  }
}

TEST_P(AttentionTest, MasksAndRowsOfNothing) {
  Problem problem{.L = 20, .S = 530};
  problem.fill(3);
  problem.mask.assign(static_cast<size_t>(20 * 530), 0.0f);
  for (int64_t s = 0; s < 530; ++s) {
    problem.mask[static_cast<size_t>(s)] = -kInfinity;                              // row 0: all
    problem.mask[static_cast<size_t>(530 + s)] = s < 400 ? -kInfinity : 0.5f;       // row 1: late
    problem.mask[static_cast<size_t>(2 * 530 + s)] = s >= 100 ? -kInfinity : 0.5f;  // row 2: early
  }
  problem.check(GetParam().function);
  problem.bf16 = has_bf16_arithmetic();
  problem.check(GetParam().function);
}

// With few queries, with more keys than a block, and with parts that no vector width divides.
TEST_P(AttentionTest, MasksInTwoParts) {
  for (const int64_t L : {1, 5, 20}) {
    for (const auto& [S, width] : {std::pair<int64_t, int64_t>{1, 1},
                                   {60, 60},
                                   {60, 1},
                                   {196, 14},
                                   {1056, 33},
                                   {1188, 11}}) {
      Problem problem{.L = L, .S = S, .E = 16, .width = width};
      problem.fill(14).check(GetParam().function);
      problem.causal = true;
      problem.check(GetParam().function);
    }
  }
  Problem groups{.H = 4, .L = 2, .S = 196, .E = 16, .group = 2, .width = 14};
  groups.fill(15).check(GetParam().function);
}

// Masks often contain this number instead of infinity: a row of it sees all keys equally.
TEST_P(AttentionTest, MasksOfTheLowestFloat) {
  Problem problem{.L = 20, .S = 40};
  problem.fill(8);
  problem.mask.assign(static_cast<size_t>(20 * 40), 0.0f);
  for (int64_t s = 0; s < 40; ++s) {
    problem.mask[static_cast<size_t>(s)] = std::numeric_limits<float>::lowest();
    problem.mask[static_cast<size_t>(40 + s)] = s < 9 ? std::numeric_limits<float>::lowest() : 0.0f;
  }
  for (const bool bf16 : {false, has_bf16_arithmetic()}) {
    problem.bf16 = bf16;
    const auto result = problem.run(GetParam().function);
    for (int64_t e = 0; e < problem.E; ++e) {
      float mean = 0;
      for (int64_t s = 0; s < 40; ++s) {
        mean += problem.value[static_cast<size_t>(s * problem.H * problem.E + e)] / 40;
      }
      EXPECT_NEAR(result.dst[static_cast<size_t>(e)], mean, bf16 ? 1e-2 : 1e-5);
    }
    for (const float x : result.dst) {
      EXPECT_TRUE(std::isfinite(x));
    }
  }
}

TEST_P(AttentionTest, LargeScores) {
  Problem problem{.L = 4, .S = 300, .scale = 60.0f};
  problem.fill(4).check(GetParam().function);
}

TEST_P(AttentionTest, ScalesOfAnySign) {
  for (const float scale : {-0.7f, 0.0f}) {
    for (const bool bf16 : {false, has_bf16_arithmetic()}) {
      Problem problem{.L = 20, .S = 530, .scale = scale, .bf16 = bf16};
      problem.fill(7).check(GetParam().function);
      problem.mask.assign(static_cast<size_t>(20 * 530), 0.25f);
      problem.check(GetParam().function);
    }
  }
}

TEST_P(AttentionTest, NanMakesItsRowNan) {
  Problem problem{.H = 1, .L = 3, .S = 300};
  problem.fill(5);
  problem.query[0] = std::nanf("");
  const auto result = problem.run(GetParam().function);
  EXPECT_TRUE(std::isnan(result.dst[0]) && std::isnan(result.dst[7]));
  EXPECT_TRUE(std::isnan(result.logsumexp[0]));
  EXPECT_FALSE(std::isnan(result.dst[8]) || std::isnan(result.logsumexp[1]));
}

TEST_P(AttentionTest, Bf16) {
  if (!has_bf16_arithmetic()) {
    GTEST_SKIP() << "this CPU has no BF16 arithmetic";
  }
  for (const int64_t E : {8, 33, 64}) {
    Problem problem{.L = 40, .S = 290, .E = E, .scale = 0.2f, .bf16 = true};
    problem.fill(6).check(GetParam().function);
  }
}

TEST(AttentionList, EndsInRef) { EXPECT_EQ(attention_kernels().back().isa, Isa::ref); }

}  // namespace
}  // namespace cpuaccel::kernels
