#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <mutex>
#include <thread>
#include <vector>

#include "base/amx.h"
#include "base/counters.h"
#include "base/cpu.h"
#include "base/fork.h"
#include "base/isa.h"
#include "base/parallel.h"
#include "base/scratch.h"

namespace cpuaccel {
namespace {

#if defined(__aarch64__)
constexpr bool kArm = true;
#else
constexpr bool kArm = false;
#endif

TEST(Isa, NamesRoundTripAndRefAlwaysRuns) {
  for (const auto& row : isa_rows()) {
    EXPECT_EQ(parse_isa(isa_name(row.isa)), row.named);
    EXPECT_EQ(row.isa == row.named, row.name != nullptr);
  }
  EXPECT_FALSE(parse_isa("avx3").has_value());
  EXPECT_EQ(isa_names().substr(0, 5), "ref, ");
  EXPECT_TRUE(isa_usable(Isa::ref));
}

TEST(Isa, TheOtherArchitecturesIsasAreNotHere) {
  for (const Isa isa :
       kArm ? std::array{Isa::avx2, Isa::avx512_vbmi} : std::array{Isa::neon, Isa::sve256}) {
    EXPECT_FALSE(isa_usable(isa));
    EXPECT_STREQ(isa_name(isa), "");
  }
}

// Tests skip rows that the CPU cannot run, so a run for an ISA must not pass without that ISA.
TEST(Isa, TheRunHasTheIsaItIsFor) {
  const char* name = std::getenv("CPUACCEL_TEST_ISA");
  const auto isa = parse_isa(name == nullptr ? "ref" : name);
  ASSERT_TRUE(isa.has_value()) << "CPUACCEL_TEST_ISA=" << name;
  EXPECT_TRUE(name == nullptr || best_isa() == *isa) << name << ", but " << isa_name(best_isa());
}

TEST(Isa, TheCapHolds) {
  const Isa before = max_isa();
  set_max_isa(Isa::ref);
  EXPECT_EQ(best_isa(), Isa::ref);
  EXPECT_EQ(has_vnni(), kArm);
  EXPECT_FALSE(has_bf16_arithmetic());
  EXPECT_FALSE(has_fp16_arithmetic());
  EXPECT_FALSE(has_amx_arithmetic());
  EXPECT_FALSE(isa_usable(Isa::amx));
  set_max_isa(before);
}

TEST(Isa, AnIsaWithoutNameIsAllowedWithItsNamedIsa) {
  const Isa before = max_isa();
  for (const auto& row : isa_rows()) {
    set_max_isa(row.named);
    const bool granted = row.isa != Isa::amx || has_amx_tiles();
    EXPECT_EQ(isa_usable(row.isa), cpu_has(row.isa) && granted);
    EXPECT_TRUE(cpu_has(row.named) || !cpu_has(row.isa));
  }
  set_max_isa(before);
}

TEST(Counters, OnlyWhatHappenedIsListed) {
  calls().reset();
  calls().add(Op::conv2d, Provider::onednn);
  calls().add(Op::conv2d, Provider::onednn);
  const auto snapshot = calls().snapshot();
  ASSERT_EQ(snapshot.size(), 1u);
  EXPECT_EQ(snapshot.at("conv2d.onednn"), 2);
}

TEST(Counters, FallbacksFromManyThreads) {
  reset_counters();
  std::vector<std::jthread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([] {
      for (int n = 0; n < 1000; ++n) {
        count_fallback("op", "reason");
      }
    });
  }
  threads.clear();
  EXPECT_EQ(fallbacks().at("op: reason"), 4000);
}

TEST(Scratch, IsReusedAlignedAndBounded) {
  void* small = scratch(ScratchSlot::primitive, 1000);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(small) % 64, 0u);
  EXPECT_EQ(scratch(ScratchSlot::primitive, 500), small);
  scratch(ScratchSlot::primitive, kCachedScratchBytes * 2);
  void* after = scratch(ScratchSlot::primitive, 100);
  EXPECT_NE(after, nullptr);
}

TEST(Parallel, TheHookSeesEveryIndexOnce) {
  std::vector<int> seen(100, 0);
  parallel_for(0, 100, 7, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      ++seen[static_cast<size_t>(i)];
    }
  });
  EXPECT_EQ(seen, std::vector<int>(100, 1));
  parallel_for(5, 5, 1, [](int64_t, int64_t) { FAIL() << "an empty range was run"; });
}

TEST(Fork, TheChildFindsEveryLockFreeAndWasReset) {
  const int owner = 0;
  static std::atomic<int> resets{0};
  reset_after_fork([] { ++resets; });
  std::atomic<bool> stop{false};
  std::jthread busy([&] {
    while (!stop) {
      const std::scoped_lock outer(fork_safe_mutex(ForkLevel::layer, &owner));
      const std::scoped_lock inner(fork_safe_mutex(ForkLevel::leaf, &owner));
    }
  });
  for (int round = 0; round < 20; ++round) {
    const pid_t child = fork();
    if (child == 0) {
      const bool free = fork_safe_mutex(ForkLevel::layer, &owner).try_lock() &&
                        fork_safe_mutex(ForkLevel::leaf, &owner).try_lock();
      _exit(free && resets == 1 ? 0 : 1);
    }
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
  stop = true;
  EXPECT_EQ(resets, 0);
}

}  // namespace
}  // namespace cpuaccel
