#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "plan/arena.h"

namespace cpuaccel::plan {
namespace {

// Random lifetimes of a plan of `steps` steps: values in the order in which they are written. Some
// take over the memory of another value.
std::vector<Lifetime> drawn(std::mt19937& generator, size_t steps) {
  const auto below = [&](size_t n) { return static_cast<size_t>(generator() % n); };
  std::vector<Lifetime> values;
  std::vector<bool> taken;
  for (size_t step = 0; step < steps; ++step) {
    for (size_t count = 1 + below(2); count > 0; --count) {
      Lifetime value{below(4) == 0 ? 0 : below(5000), step, step + below(steps - step)};
      for (size_t i = 0; i < values.size(); ++i) {
        const Lifetime& other = values[i];
        if (other.last == step && other.first < step && !taken[i] && below(3) == 0) {
          value.bytes = std::min(value.bytes, other.bytes);
          value.over = static_cast<int64_t>(i);
          taken[i] = true;
          break;
        }
      }
      values.push_back(value);
      taken.push_back(false);
    }
  }
  return values;
}

bool share_a_byte(const Arena& arena, const std::vector<Lifetime>& values, size_t i, size_t j) {
  return arena.offsets[i] < arena.offsets[j] + values[j].bytes &&
         arena.offsets[j] < arena.offsets[i] + values[i].bytes;
}

void check(const std::vector<Lifetime>& values) {
  const Arena arena = plan_arena(values);
  ASSERT_EQ(arena.offsets.size(), values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    EXPECT_EQ(arena.offsets[i] % 64, 0u);
    EXPECT_LE(arena.offsets[i] + values[i].bytes, arena.bytes);
    if (values[i].over >= 0) {
      EXPECT_EQ(arena.offsets[i], arena.offsets[static_cast<size_t>(values[i].over)]);
    }
    for (size_t j = 0; j < i; ++j) {
      const bool at_once = values[i].first <= values[j].last && values[j].first <= values[i].last;
      const bool over = values[i].over == static_cast<int64_t>(j);
      EXPECT_FALSE(at_once && !over && share_a_byte(arena, values, i, j)) << j << " and " << i;
    }
  }
}

TEST(Arena, ValuesNeededAtOnceLieApart) {
  std::mt19937 generator(1);
  for (int round = 0; round < 500; ++round) {
    check(drawn(generator, 1 + generator() % 40));
    ASSERT_FALSE(testing::Test::HasFailure()) << "round " << round;
  }
}

// A chain of steps needs two values at a time, however many steps it has.
TEST(Arena, AChainTakesTheLargestPair) {
  std::vector<Lifetime> chain;
  for (size_t step = 0; step < 20; ++step) {
    chain.push_back({step % 2 == 0 ? size_t{640} : size_t{6400}, step, step + 1});
  }
  EXPECT_EQ(plan_arena(chain).bytes, 640u + 6400u);
}

// In order of time, the small value, which stays, would lie in the way of the large ones.
TEST(Arena, TheLargestAreFirstWhereThatTakesLess) {
  const std::vector<Lifetime> values{{1024, 0, 1}, {64, 1, 9}, {2048, 2, 3}};
  EXPECT_EQ(plan_arena(values).bytes, 2048u + 64u);
}

TEST(Arena, Nothing) { EXPECT_EQ(plan_arena({}).bytes, 0u); }

}  // namespace
}  // namespace cpuaccel::plan
