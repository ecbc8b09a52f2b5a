// Tests of the parts of neighbor sampling: random numbers, choices, and the table of nodes.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <unordered_map>

#include "kernels/sample/choose.h"
#include "kernels/sample/node_table.h"
#include "threads.h"

namespace cpuaccel::kernels {
namespace {

// Chi-square statistic of counts against equal ones, scaled to 1 on average.
double chi_square(const std::vector<int64_t>& counts, double expected) {
  double sum = 0;
  for (const int64_t count : counts) {
    const double off = static_cast<double>(count) - expected;
    sum += off * off / expected;
  }
  return sum / static_cast<double>(counts.size() - 1);
}

TEST(SampleRandom, BelowIsEven) {
  for (const int64_t bound : {1, 2, 3, 10, 97}) {
    std::vector<int64_t> counts(static_cast<size_t>(bound));
    const int64_t draws = 4000;
    for (int64_t stream = 0; stream < draws; ++stream) {
      RandomStream random(7, 0, static_cast<uint64_t>(stream));
      const int64_t number = random.below(bound);
      ASSERT_GE(number, 0);
      ASSERT_LT(number, bound);
      ++counts[static_cast<size_t>(number)];
    }
    if (bound > 1) {
      // With 9 degrees of freedom 0.1 % of samples exceed 3.1; fewer degrees vary more.
      EXPECT_LT(chi_square(counts, static_cast<double>(draws) / static_cast<double>(bound)), 7);
    }
  }
  RandomStream random(1, 2, 3);
  const int64_t large = (int64_t{3} << 61) - 1;
  for (int i = 0; i < 1000; ++i) {
    const int64_t number = random.below(large);
    ASSERT_TRUE(number >= 0 && number < large);
  }
}

TEST(SampleRandom, StreamsDiffer) {
  std::set<uint64_t> seen;
  for (uint64_t seed = 0; seed < 10; ++seed) {
    for (uint64_t key = 0; key < 10; ++key) {
      for (uint64_t number = 0; number < 10; ++number) {
        seen.insert(RandomStream(seed, key, number).next());
      }
    }
  }
  EXPECT_EQ(seen.size(), 1000u);
}

TEST(SampleChoose, EachOnceAndAllAlike) {
  std::vector<uint64_t> taken;
  struct Case {
    int64_t degree, count;
  };
  // Choices by search, by marks, of all, and of none.
  for (const auto& [degree, count] : {Case{10, 3}, {5, 4}, {7, 7}, {4, 0}, {300, 100}, {90, 89}}) {
    std::vector<int64_t> counts(static_cast<size_t>(degree)), picks(static_cast<size_t>(count));
    const int64_t draws = 3000;
    for (int64_t draw = 0; draw < draws; ++draw) {
      choose_some(RandomStream(3, 1, static_cast<uint64_t>(draw)), degree, count, picks.data(),
                  taken);
      const std::set<int64_t> distinct(picks.begin(), picks.end());
      ASSERT_EQ(static_cast<int64_t>(distinct.size()), count);
      for (const int64_t pick : picks) {
        ASSERT_TRUE(pick >= 0 && pick < degree);
        ++counts[static_cast<size_t>(pick)];
      }
    }
    if (count > 0 && count < degree) {
      EXPECT_LT(
          chi_square(counts, static_cast<double>(draws * count) / static_cast<double>(degree)), 2.5)
          << degree << ", " << count;
    }
  }
}

TEST(SampleChoose, PairsAreAllAlike) {
  std::map<std::set<int64_t>, int64_t> counts;
  std::vector<uint64_t> taken;
  int64_t picks[2];
  for (uint64_t draw = 0; draw < 6000; ++draw) {
    choose_some(RandomStream(5, 0, draw), 4, 2, picks, taken);
    ++counts[{picks[0], picks[1]}];
  }
  ASSERT_EQ(counts.size(), 6u);
  for (const auto& [pair, count] : counts) {
    EXPECT_NEAR(static_cast<double>(count), 1000, 130);
  }
}

TEST(SampleChoose, AnyMayRepeat) {
  std::vector<int64_t> counts(5), picks(50);
  for (uint64_t draw = 0; draw < 100; ++draw) {
    choose_any(RandomStream(2, 0, draw), 5, 50, picks.data());
    for (const int64_t pick : picks) {
      ++counts[static_cast<size_t>(pick)];
    }
  }
  EXPECT_LT(chi_square(counts, 1000), 5);
}

TEST(SampleNodeTable, AsAMapWould) {
  std::mt19937 random(1);
  NodeTable table;
  for (int round = 0; round < 4; ++round) {
    table.clear();
    std::unordered_map<int64_t, int64_t> expected;
    int64_t next = 0;
    for (const int64_t count : {0, 1, 300, 20000, 5}) {
      std::vector<int64_t> keys(static_cast<size_t>(count)), ids(keys.size(), -9);
      std::vector<int64_t> firsts, wanted;
      for (size_t i = 0; i < keys.size(); ++i) {
        keys[i] = static_cast<int64_t>(random() % 9000) * (int64_t{1} << (round * 14));
        const auto [found, is_new] = expected.try_emplace(keys[i], next);
        if (is_new) {
          firsts.push_back(static_cast<int64_t>(i));
          ++next;
        }
        wanted.push_back(found->second);
      }
      Numbers got;
      const Threads threads(1 + round);
      table.number(keys.data(), count, next - static_cast<int64_t>(firsts.size()), ids.data(), got);
      ASSERT_EQ(ids, wanted);
      ASSERT_EQ(std::vector(got.data(), got.data() + got.size()), firsts);
    }
    for (const auto& [key, id] : expected) {
      ASSERT_EQ(table.find(key), id);
    }
    EXPECT_EQ(table.find(-5), -1);
  }
  EXPECT_GT(table.bytes(), 0u);
}

TEST(SampleNodeTable, InsertedKeysKeepTheirFirstNumber) {
  NodeTable table;
  EXPECT_EQ(table.find(3), -1);
  for (int64_t key = 0; key < 5000; ++key) {
    table.insert(key, 2 * key);
    table.insert(key, 7);
  }
  const std::vector<int64_t> keys{4, 9000, 4999, 9000};
  std::vector<int64_t> ids(4);
  Numbers firsts;
  table.number(keys.data(), 4, 11000, ids.data(), firsts);
  EXPECT_EQ(ids, (std::vector<int64_t>{8, 11000, 9998, 11000}));
  EXPECT_THROW(table.number(keys.data(), 4, NodeTable::kMostNodes - 2, ids.data(), firsts),
               std::length_error);
}

}  // namespace
}  // namespace cpuaccel::kernels
