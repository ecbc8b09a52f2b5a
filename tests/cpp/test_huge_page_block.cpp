#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <thread>
#include <utility>
#include <vector>

#include "base/huge_page_block.h"

namespace cpuaccel {
namespace {

TEST(HugePageBlock, FreesItsMemory) {
  for (const size_t bytes : {size_t{1}, size_t{100000}, size_t{5} << 20}) {
    AlignedBlock block = huge_page_block(bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(block.get()) % 64, 0u);
    std::memset(block.get(), 1, bytes);
    block = huge_page_block(2 * bytes);
    const AlignedBlock moved = std::move(block);
    std::memset(moved.get(), 1, 2 * bytes);
  }
}

TEST(HugePageBlock, IsAllocatedByManyThreads) {
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([thread] {
      std::vector<AlignedBlock> blocks(8);
      for (size_t i = 0; i < 400; ++i) {
        auto& block = blocks[i % blocks.size()];
        const size_t bytes = 70000 + i * 1000;
        block = huge_page_block(bytes);
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
