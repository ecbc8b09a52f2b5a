#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <random>
#include <utility>
#include <vector>

#include "base/page_runs.h"
#include "base/pages.h"

namespace cpuaccel {
namespace {

constexpr size_t kGrain = PageRuns::kGrain;

TEST(PageRuns, GivesMemoryThatCanBeWritten) {
  PageRuns runs;
  for (const size_t bytes : {kGrain, 3 * kGrain, kHugePage, size_t{33} << 20}) {
    std::byte* data = runs.take(bytes);
    ASSERT_NE(data, nullptr);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(data) % kGrain, 0u);
    std::memset(data, 1, bytes);
    runs.give_back(data, bytes);
    EXPECT_EQ(runs.free_bytes() / kHugePage, 0u);
  }
}

TEST(PageRuns, LiesSideBySide) {
  PageRuns runs;
  std::byte* first = runs.take(5 * kGrain);
  std::byte* second = runs.take(7 * kGrain);
  EXPECT_EQ(second, first + 5 * kGrain);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(first) % kHugePage, 0u);
  runs.give_back(first, 5 * kGrain);
  runs.give_back(second, 7 * kGrain);
}

// A request gets the smallest free run that fits.
TEST(PageRuns, TakesTheSmallestRunThatFits) {
  PageRuns runs;
  std::vector<std::byte*> blocks;
  const std::vector<size_t> grains = {8, 1, 3, 1, 5, 1};
  for (const size_t count : grains) {
    blocks.push_back(runs.take(count * kGrain));
  }
  for (const size_t i : {0, 2, 4}) {
    runs.give_back(blocks[i], grains[i] * kGrain);
  }
  EXPECT_EQ(runs.take(4 * kGrain), blocks[4]);
  EXPECT_EQ(runs.take(3 * kGrain), blocks[2]);
  EXPECT_EQ(runs.take(8 * kGrain), blocks[0]);
}

size_t resident(std::byte* data, size_t bytes) {
  std::vector<unsigned char> pages(bytes / kGrain);
  EXPECT_EQ(mincore(data, bytes, pages.data()), 0);
  return static_cast<size_t>(
      std::count_if(pages.begin(), pages.end(), [](unsigned char page) { return page % 2 != 0; }));
}

// Free pages of a huge page that is partly in use stay resident until they are dropped.
TEST(PageRuns, DropsWhatIsFree) {
  PageRuns runs;
  constexpr size_t kBytes = 64 * kGrain;
  std::vector<std::byte*> blocks(64);
  for (auto& block : blocks) {
    block = runs.take(kBytes);
    std::memset(block, 1, kBytes);
  }
  for (size_t i = 0; i < blocks.size(); i += 2) {
    runs.give_back(blocks[i], kBytes);
  }
  runs.drop_free();
  for (size_t i = 0; i < blocks.size(); ++i) {
    EXPECT_EQ(resident(blocks[i], kBytes), i % 2 == 0 ? 0 : kBytes / kGrain);
  }
  EXPECT_EQ(runs.take(kBytes), blocks[0]);
  EXPECT_EQ(blocks[1][kBytes - 1], std::byte{1});
  for (size_t i = 0; i < blocks.size(); ++i) {
    if (i % 2 != 0 || i == 0) {
      runs.give_back(blocks[i], kBytes);
    }
  }
}

TEST(PageRuns, UnmapsWhatIsFree) {
  PageRuns runs;
  std::byte* data = runs.take(8 * kGrain);
  EXPECT_GT(runs.free_bytes(), 0u);
  EXPECT_EQ(runs.used_free_bytes(), 0u) << "nobody wrote to it";
  runs.give_back(data + kGrain, kGrain);
  EXPECT_EQ(runs.used_free_bytes(), kGrain);
  data[0] = std::byte{1};
  runs.unmap_free();
  EXPECT_EQ(runs.free_bytes(), 0u);
  EXPECT_EQ(data[0], std::byte{1});
  runs.give_back(data, kGrain);
  runs.give_back(data + 2 * kGrain, 6 * kGrain);
}

// Blocks of any size, released in any order: none overlap, and at the end all memory is unmapped.
TEST(PageRuns, KeepsNothingInTheEnd) {
  PageRuns runs;
  std::mt19937 generator(1);
  std::vector<std::pair<std::byte*, size_t>> blocks;
  const auto expect_own = [](const std::pair<std::byte*, size_t>& block) {
    uint64_t first = 0, last = 0;
    std::memcpy(&first, block.first, sizeof(first));
    std::memcpy(&last, block.first + block.second - sizeof(last), sizeof(last));
    ASSERT_EQ(first, reinterpret_cast<uintptr_t>(block.first));
    ASSERT_EQ(last, first);
  };
  const auto give_back = [&](size_t i) {
    expect_own(blocks[i]);
    runs.give_back(blocks[i].first, blocks[i].second);
    blocks[i] = blocks.back();
    blocks.pop_back();
  };
  for (int turn = 0; turn < 600; ++turn) {
    if (generator() % 5 < 3) {
      const size_t bytes = (1 + generator() % (turn % 7 == 0 ? 9000 : 700)) * kGrain;
      std::byte* data = runs.take(bytes);
      ASSERT_NE(data, nullptr);
      const auto mark = uint64_t{reinterpret_cast<uintptr_t>(data)};
      std::memcpy(data, &mark, sizeof(mark));
      std::memcpy(data + bytes - sizeof(mark), &mark, sizeof(mark));
      blocks.emplace_back(data, bytes);
    } else if (!blocks.empty()) {
      give_back(generator() % blocks.size());
    }
  }
  while (!blocks.empty()) {
    give_back(blocks.size() - 1);
  }
  EXPECT_EQ(runs.free_bytes(), 0u);
}

}  // namespace
}  // namespace cpuaccel
