#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <set>
#include <stdexcept>
#include <thread>
#include <vector>

#include "base/parallel.h"
#include "base/team.h"

namespace cpuaccel {
namespace {

constexpr int kThreads = 4;

thread_local bool t_inside = false;

// One thread for each range, as with OpenMP.
void on_threads(int64_t begin, int64_t end, int64_t grain, const RangeBody& body) {
  if (t_inside) {
    body(begin, end);
    return;
  }
  const int64_t most = std::min<int64_t>(kThreads, (end - begin + grain - 1) / grain);
  const int64_t length = (end - begin + most - 1) / most;
  const auto run = [&](int64_t from) {
    t_inside = true;
    body(from, std::min(end, from + length));
    t_inside = false;
  };
  std::vector<std::thread> others;
  for (int64_t from = begin + length; from < end; from += length) {
    others.emplace_back(run, from);
  }
  run(begin);
  for (auto& each : others) {
    each.join();
  }
}

// Runs everything in the calling thread, like a parallel region that got no other thread.
void alone(int64_t begin, int64_t end, int64_t /*grain*/, const RangeBody& body) {
  t_inside = true;
  body(begin, end);
  t_inside = false;
}

class TeamTest : public testing::Test {
 protected:
  TeamTest() {
    set_parallel_for(on_threads, [] { return t_inside ? 1 : kThreads; });
  }
  ~TeamTest() override {
    set_parallel_for([](int64_t begin, int64_t end, int64_t /*grain*/,
                        const RangeBody& body) { body(begin, end); },
                     [] { return 1; });
    set_teams(true);
  }
};

void add_one(std::vector<int>& values, int64_t grain) {
  parallel_for(0, static_cast<int64_t>(values.size()), grain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      ++values[static_cast<size_t>(i)];
    }
  });
}

TEST_F(TeamTest, EveryRangeOnceInEveryCall) {
  std::vector<int> values(1000);
  int calls = 0;
  const int64_t opened = teams_opened();
  in_team([&] {
    for (const int64_t grain : {1, 3, 250, 334, 500, 999, 1000}) {
      for (int round = 0; round < 200; ++round) {
        add_one(values, grain);
        ++calls;
        // The leader sees what all threads have written.
        ASSERT_EQ(std::count(values.begin(), values.end(), calls), 1000) << grain;
      }
    }
  });
  EXPECT_EQ(calls, 1400);
  EXPECT_EQ(teams_opened(), opened + 1);
}

TEST_F(TeamTest, RangesAreThoseOfALoopAlone) {
  for (int64_t count = 2; count < 40; ++count) {
    for (const int64_t grain : {1, 2, 7}) {
      std::vector<int64_t> begins(static_cast<size_t>(count), -1);
      in_team([&] {
        EXPECT_EQ(parallel_threads(), kThreads);
        parallel_for(0, count, grain, [&](int64_t begin, int64_t end) {
          std::fill(begins.begin() + begin, begins.begin() + end, begin);
        });
      });
      const std::set<int64_t> different(begins.begin(), begins.end());
      EXPECT_EQ(different.size() == 1, count <= grain);
      EXPECT_LE(different.size(), size_t{kThreads});
      EXPECT_EQ(*different.begin(), 0);
    }
  }
}

TEST_F(TeamTest, ThreadsTakePart) {
  std::atomic<int> inside{0};
  in_team([&] {
    // No thread continues before two are in the loop.
    parallel_for(0, kThreads, 1, [&](int64_t /*begin*/, int64_t /*end*/) {
      inside.fetch_add(1);
      const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
      while (inside.load() < 2 && std::chrono::steady_clock::now() < until) {
        std::this_thread::yield();
      }
      EXPECT_GE(inside.load(), 2);
    });
  });
}

TEST_F(TeamTest, WorksWithoutOtherThreads) {
  set_parallel_for(alone, [] { return t_inside ? 1 : kThreads; });
  std::vector<int> values(100);
  in_team([&] {
    add_one(values, 1);
    add_one(values, 1);
  });
  EXPECT_EQ(std::count(values.begin(), values.end(), 2), 100);
}

TEST_F(TeamTest, WhatARangeSplitsUpIsItsOwn) {
  std::atomic<int> sum{0};
  in_team([&] {
    parallel_for(0, kThreads, 1, [&](int64_t begin, int64_t end) {
      EXPECT_EQ(Team::led(), nullptr);
      EXPECT_EQ(parallel_threads(), 1);
      in_team([&] {
        parallel_for(begin, end + 10, 1,
                     [&](int64_t from, int64_t to) { sum.fetch_add(static_cast<int>(to - from)); });
      });
    });
    EXPECT_NE(Team::led(), nullptr);
  });
  EXPECT_EQ(sum.load(), kThreads * 11);
  EXPECT_EQ(Team::led(), nullptr);
}

TEST_F(TeamTest, ErrorsOfRangesAndOfTheLeader) {
  std::vector<int> values(100);
  for (int round = 0; round < 50; ++round) {
    in_team([&] {
      EXPECT_THROW(parallel_for(0, 100, 1,
                                [](int64_t begin, int64_t /*end*/) {
                                  if (begin > 0) {
                                    throw std::runtime_error("a range");
                                  }
                                }),
                   std::runtime_error);
      add_one(values, 1);  // the team continues
    });
  }
  EXPECT_EQ(std::count(values.begin(), values.end(), 50), 100);
  set_parallel_for(alone, [] { return t_inside ? 1 : kThreads; });
  EXPECT_THROW(in_team([] { throw std::runtime_error("the leader"); }), std::runtime_error);
  t_inside = false;
  set_parallel_for(on_threads, [] { return t_inside ? 1 : kThreads; });
  in_team([&] { add_one(values, 1); });
  EXPECT_EQ(std::count(values.begin(), values.end(), 51), 100);
}

TEST_F(TeamTest, SwitchedOff) {
  set_teams(false);
  const int64_t opened = teams_opened();
  in_team([] { EXPECT_EQ(Team::led(), nullptr); });
  EXPECT_EQ(teams_opened(), opened);
}

TEST_F(TeamTest, SeveralAtOnce) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([] {
      std::vector<int> values(64);
      for (int round = 0; round < 50; ++round) {
        in_team([&] {
          add_one(values, 1);
          add_one(values, 1);
        });
      }
      EXPECT_EQ(std::count(values.begin(), values.end(), 100), 64);
    });
  }
  for (auto& each : threads) {
    each.join();
  }
}

}  // namespace
}  // namespace cpuaccel
