#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "base/kept_block.h"
#include "base/pages.h"

namespace cpuaccel {
namespace {

constexpr size_t kGrain = KeptMemory::kGrain;

TEST(KeptMemory, GivesMemoryThatCanBeWritten) {
  KeptMemory memory;
  for (const size_t bytes : {kGrain, 3 * kGrain, kHugePage, size_t{33} << 20}) {
    std::byte* data = memory.take(bytes);
    ASSERT_NE(data, nullptr);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(data) % kGrain, 0u);
    std::memset(data, 1, bytes);
    memory.give_back(data, bytes);
    EXPECT_EQ(memory.free_bytes() / kHugePage, 0u);
  }
}

TEST(KeptMemory, LiesSideBySide) {
  KeptMemory memory;
  std::byte* first = memory.take(5 * kGrain);
  std::byte* second = memory.take(7 * kGrain);
  EXPECT_EQ(second, first + 5 * kGrain);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(first) % kHugePage, 0u);
  memory.give_back(first, 5 * kGrain);
  memory.give_back(second, 7 * kGrain);
}

// What is free goes to those that fit in it best.
TEST(KeptMemory, TakesTheSmallestRunThatFits) {
  KeptMemory memory;
  std::vector<std::byte*> blocks;
  const std::vector<size_t> grains = {8, 1, 3, 1, 5, 1};
  for (const size_t count : grains) {
    blocks.push_back(memory.take(count * kGrain));
  }
  for (const size_t i : {0, 2, 4}) {
    memory.give_back(blocks[i], grains[i] * kGrain);
  }
  EXPECT_EQ(memory.take(4 * kGrain), blocks[4]);
  EXPECT_EQ(memory.take(3 * kGrain), blocks[2]);
  EXPECT_EQ(memory.take(8 * kGrain), blocks[0]);
}

// Blocks of any sizes, given back in any order: none overlap, and in the end the system has all.
TEST(KeptMemory, KeepsNothingInTheEnd) {
  KeptMemory memory;
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
    memory.give_back(blocks[i].first, blocks[i].second);
    blocks[i] = blocks.back();
    blocks.pop_back();
  };
  for (int turn = 0; turn < 600; ++turn) {
    if (generator() % 5 < 3) {
      const size_t bytes = (1 + generator() % (turn % 7 == 0 ? 9000 : 700)) * kGrain;
      std::byte* data = memory.take(bytes);
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
  EXPECT_EQ(memory.free_bytes(), 0u);
}

TEST(KeptBlock, FreesWhatItGave) {
  for (const size_t bytes : {size_t{1}, size_t{100000}, size_t{5} << 20}) {
    AlignedBlock block = kept_block(bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(block.get()) % 64, 0u);
    std::memset(block.get(), 1, bytes);
    block = kept_block(2 * bytes);
    const AlignedBlock moved = std::move(block);
    std::memset(moved.get(), 1, 2 * bytes);
  }
}

TEST(KeptBlock, IsTakenByManyThreads) {
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([thread] {
      std::vector<AlignedBlock> blocks(8);
      for (size_t i = 0; i < 400; ++i) {
        auto& block = blocks[i % blocks.size()];
        const size_t bytes = 70000 + i * 1000;
        block = kept_block(bytes);
        std::memset(block.get(), thread, bytes);
      }
    });
  }
  for (auto& thread : threads) {
    thread.join();
  }
}

}  // namespace
}  // namespace cpuaccel
