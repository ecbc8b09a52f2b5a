#include "base/parallel.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace cpuaccel {
namespace {

int g_count = 1;
std::vector<std::pair<int64_t, int64_t>> g_ranges;

// Divides as at::parallel_for does, and notes the ranges.
void divided(int64_t begin, int64_t end, int64_t grain, const RangeBody& body) {
  const int64_t most = std::min<int64_t>(g_count, (end - begin + grain - 1) / grain);
  const int64_t length = (end - begin + most - 1) / most;
  for (int64_t from = begin; from < end; from += length) {
    g_ranges.emplace_back(from, std::min(end, from + length));
    body(from, g_ranges.back().second);
  }
}

class ParallelTest : public testing::Test {
 protected:
  ParallelTest() {
    set_parallel_for(divided, [] { return g_count; });
  }
  ~ParallelTest() override {
    g_count = 1;
    set_parallel_for([](int64_t begin, int64_t end, int64_t /*grain*/,
                        const RangeBody& body) { body(begin, end); },
                     [] { return 1; });
  }
  static size_t ranges(int threads, int64_t count, int64_t grain) {
    g_count = threads;
    g_ranges.clear();
    parallel_for(0, count, grain, [](int64_t, int64_t) {});
    return g_ranges.size();
  }
};

TEST_F(ParallelTest, CoversEachIndexOnce) {
  for (const int threads : {1, 2, 3, 7, 31, 64, 97}) {
    g_count = threads;
    for (const int64_t count : {1, 2, 5, 96, 97, 1000, 4099}) {
      for (const int64_t grain : {1, 2, 7, 96, 1000, 5000}) {
        std::vector<int> times(static_cast<size_t>(count));
        parallel_for(0, count, grain, [&](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i) {
            ++times[static_cast<size_t>(i)];
          }
        });
        EXPECT_EQ(std::count(times.begin(), times.end(), 1), count)
            << threads << " threads, grain " << grain;
      }
    }
  }
}

// Up to a grain nothing wakes up; the threads that wake up together share all of the work.
TEST_F(ParallelTest, WokenThreadsShareLessThanAGrain) {
  EXPECT_EQ(ranges(32, 1000, 1000), 0u);
  EXPECT_EQ(ranges(2, 2000, 1000), 2u);
  EXPECT_EQ(ranges(16, 2000, 1000), 16u);
  EXPECT_EQ(ranges(32, 8000, 1000), 32u);
  // More than the barrier is worth.
  EXPECT_LT(ranges(96, 2000, 1000), 32u);
}

}  // namespace
}  // namespace cpuaccel
