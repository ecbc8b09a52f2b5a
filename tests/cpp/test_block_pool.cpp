#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include "base/pages.h"
#include "emulated.h"
#include "memory/block_pool.h"

namespace cpuaccel::memory {
namespace {

constexpr size_t kMiB = size_t{1} << 20;
constexpr int64_t kGiB = int64_t{1} << 30;

MachineMemory plenty() { return {8 * kGiB, 8 * kGiB}; }

TEST(BlockPool, AFreedBlockServesSizesNearItsOwn) {
  BlockPool pool(plenty);
  void* block = pool.allocate(10 * kMiB);
  ASSERT_NE(block, nullptr);
  EXPECT_TRUE(pool.owns(block));
  pool.release(block);
  EXPECT_FALSE(pool.owns(block));
  EXPECT_EQ(pool.allocate(9 * kMiB), block);
  void* other = pool.allocate(10 * kMiB);
  EXPECT_NE(other, block);
  EXPECT_EQ(pool.stats().hits, 1);
  EXPECT_EQ(pool.stats().misses, 2);
  pool.release(block);
  pool.release(other);
}

TEST(BlockPool, AMuchLargerBlockIsCutUpAndJoinedAgain) {
  BlockPool pool(plenty);
  auto* block = static_cast<std::byte*>(pool.allocate(20 * kMiB));
  pool.release(block);
  EXPECT_EQ(pool.allocate(4 * kMiB), block);
  EXPECT_EQ(pool.allocate(8 * kMiB), block + 4 * kMiB);
  EXPECT_EQ(pool.allocate(8 * kMiB), block + 12 * kMiB);
  EXPECT_EQ(pool.stats().misses, 1);
  // Releasing the middle block joins it with both neighbors.
  pool.release(block);
  pool.release(block + 12 * kMiB);
  pool.release(block + 4 * kMiB);
  EXPECT_EQ(pool.allocate(20 * kMiB), block);
  EXPECT_EQ(pool.stats().misses, 1);
  EXPECT_EQ(pool.stats().reserved, 20 * static_cast<int64_t>(kMiB));
  pool.release(block);
}

TEST(BlockPool, OfALargeBlockAPartIsGivenBack) {
  BlockPool pool(plenty);
  void* block = pool.allocate(40 * kMiB);
  pool.release(block);
  pool.set_capacity(25 * static_cast<int64_t>(kMiB));
  EXPECT_EQ(pool.stats().reserved, 24 * static_cast<int64_t>(kMiB));
  EXPECT_EQ(pool.allocate(24 * kMiB), block);
  std::memset(block, 1, 24 * kMiB);
  pool.release(block);
}

// A block smaller than a huge page shares one.
TEST(BlockPool, BlocksLieSideBySideInHugePages) {
  BlockPool pool(plenty);
  auto* first = static_cast<std::byte*>(pool.allocate(kMiB));
  auto* second = static_cast<std::byte*>(pool.allocate(3 * kMiB));
  EXPECT_EQ(reinterpret_cast<uintptr_t>(first) % kHugePage, 0u);
  // A page lies between them, so that blocks of a power of two do not share sets of the caches.
  EXPECT_EQ(second, first + kMiB + PageRuns::kGrain);
  std::memset(first, 1, 4 * kMiB);
  pool.release(first);
  pool.release(second);
}

TEST(BlockPool, BlocksOfPowersOfTwoBeginAtDifferentPlacesOfAPage) {
  BlockPool pool(plenty);
  std::set<uintptr_t> places;
  std::vector<void*> blocks;
  for (int i = 0; i < 3; ++i) {
    blocks.push_back(pool.allocate(kMiB / 2));
    std::memset(blocks.back(), i, kMiB / 2);
    const auto address = reinterpret_cast<uintptr_t>(blocks.back());
    EXPECT_EQ(address % 64, 0u);
    places.insert(address % PageRuns::kGrain);
  }
  EXPECT_EQ(places.size(), 3u);
  for (void* block : blocks) {
    EXPECT_TRUE(BlockPool::may_own(block));
    EXPECT_TRUE(pool.owns(block));
    pool.release(block);
  }
  EXPECT_EQ(pool.stats().allocated, 0);
}

TEST(BlockPool, TogetherTheyStayNearTheMostThatWasAllocated) {
  BlockPool pool(plenty);
  // Sizes that none of the cached blocks fit, one at a time. At most one and a tenth of the largest
  // is reserved.
  size_t largest = 0;
  for (size_t bytes = 2 * kMiB; bytes < 100 * kMiB; bytes += bytes / 3) {
    pool.release(pool.allocate(bytes));
    largest = std::max(largest, bytes);
    EXPECT_LE(pool.stats().reserved, static_cast<int64_t>(1.2 * static_cast<double>(largest)));
  }
  EXPECT_GT(pool.stats().trims, 0);
}

TEST(BlockPool, KeepsNoMoreThanItsCapacity) {
  BlockPool pool(plenty);
  pool.set_capacity(10 * static_cast<int64_t>(kMiB));
  void* first = pool.allocate(8 * kMiB);
  void* second = pool.allocate(8 * kMiB);
  pool.release(first);
  pool.release(second);
  EXPECT_LE(pool.stats().reserved, 10 * static_cast<int64_t>(kMiB));
  EXPECT_GE(pool.stats().reserved, 8 * static_cast<int64_t>(kMiB));
  pool.set_capacity(0);
  EXPECT_EQ(pool.stats().reserved, 0);
}

TEST(BlockPool, KeepsNothingUnderPressure) {
  BlockPool pool([] { return MachineMemory{8 * kGiB, kGiB / 4}; });
  pool.release(pool.allocate(8 * kMiB));
  EXPECT_EQ(pool.stats().reserved, 0);
}

// Replaces the machine's clock and address space in a test.
struct Surroundings {
  BlockPool::Time now{};
  AddressSpace space;

  BlockPool pool() {
    return BlockPool(plenty, [this] { return space; }, [this] { return now; });
  }
};

// Other allocators cannot ask the pool to free the address space that it caches.
TEST(BlockPool, KeepsLittleOfALimitedAddressSpace) {
  Surroundings around;
  auto pool = around.pool();
  const auto megabyte = static_cast<int64_t>(kMiB);
  around.space = {64 * megabyte, 16 * megabyte};
  pool.release(pool.allocate(48 * kMiB));
  EXPECT_LE(pool.stats().reserved, 4 * megabyte);  // a sixteenth of 48 + 16
  EXPECT_GT(pool.stats().reserved, 0);
  around.space.available = 0;
  pool.release(pool.allocate(kMiB));
  EXPECT_EQ(pool.stats().reserved, 0);
}

// Asking takes system calls. Without a limit, small blocks ask only now and then.
TEST(BlockPool, SmallBlocksSeldomAskForTheAddressSpace) {
  Surroundings around;
  int asked = 0;
  const auto address = [&] {
    ++asked;
    return around.space;
  };
  BlockPool pool(plenty, address, [&] { return around.now; });
  const auto megabyte = static_cast<int64_t>(kMiB);
  const auto use = [&](size_t bytes) { pool.release(pool.allocate(bytes)); };
  for (int i = 0; i < 9; ++i) {
    use(kMiB);
  }
  EXPECT_EQ(asked, 1);
  around.now += std::chrono::milliseconds(100);
  use(kMiB);
  EXPECT_EQ(asked, 2);
  around.space = {64 * megabyte, 16 * megabyte};
  use(32 * kMiB);
  EXPECT_EQ(asked, 3);
  EXPECT_LE(pool.stats().reserved, 3 * megabyte);
  use(kMiB);
  EXPECT_EQ(asked, 4);
}

TEST(BlockPool, WhatNoAllocationNeedsGoesBackAfterAWhile) {
  Surroundings around;
  auto pool = around.pool();
  void* large = pool.allocate(40 * kMiB);
  void* small = pool.allocate(4 * kMiB);
  pool.release(large);
  pool.release(small);
  EXPECT_EQ(pool.stats().reserved, 44 * static_cast<int64_t>(kMiB));
  // The small block is used again and again, the large one is not.
  for (int second = 0; second < 20; ++second) {
    around.now += std::chrono::seconds(1);
    pool.release(pool.allocate(4 * kMiB));
  }
  EXPECT_LE(pool.stats().reserved, 6 * static_cast<int64_t>(kMiB));
  EXPECT_GE(pool.stats().reserved, 4 * static_cast<int64_t>(kMiB));
  EXPECT_EQ(pool.stats().misses, 2);
  // Without an allocation memory is freed too, when age() is called.
  around.now += std::chrono::minutes(5);
  pool.age();
  around.now += std::chrono::minutes(5);
  pool.age();
  EXPECT_EQ(pool.stats().reserved, 0);
}

// A training step may last longer than idle memory stays cached. After a few steps its memory is
// cached all the same.
TEST(BlockPool, MemoryThatEachLongStepNeedsIsKept) {
  Surroundings around;
  auto pool = around.pool();
  const auto step = [&] {
    std::vector<void*> blocks;
    for (int i = 0; i < 16; ++i) {
      blocks.push_back(pool.allocate(2 * kMiB));
      around.now += std::chrono::seconds(1);
    }
    for (void* block : blocks) {
      pool.release(block);
      around.now += std::chrono::seconds(1);
    }
  };
  for (int i = 0; i < 5; ++i) {
    step();
  }
  const int64_t misses = pool.stats().misses;
  step();
  EXPECT_EQ(pool.stats().misses, misses);
}

// The free parts of huge pages stay resident unless they are dropped.
TEST(BlockPool, HolesBetweenBlocksCountToo) {
  BlockPool pool(plenty);
  size_t used = 0;
  std::vector<void*> blocks;
  const auto fill = [&](size_t bytes, size_t total) {
    for (; used + bytes <= total; used += bytes) {
      blocks.push_back(pool.allocate(bytes));
      std::memset(blocks.back(), 1, bytes);
    }
  };
  const auto resident = [] {
    size_t all = 0, pages = 0;
    std::ifstream("/proc/self/statm") >> all >> pages;
    return static_cast<double>(pages) * 4096;
  };
  constexpr size_t kTotal = 192 * kMiB;
  [[maybe_unused]] const double before = resident();
  fill(kMiB, kTotal);
  for (size_t i = 0; i < blocks.size(); i += 2) {
    pool.release(blocks[i]);
    blocks[i] = nullptr;
    used -= kMiB;
  }
  fill(3 * kMiB, kTotal);  // fits in none of the holes
#if !defined(__SANITIZE_ADDRESS__)
  EXPECT_LE(resident() - before, 1.15 * static_cast<double>(kTotal));
#endif
  for (void* block : blocks) {
    pool.release(block);
  }
}

TEST(BlockPool, EmptyGivesItsBytesBack) {
  BlockPool pool(plenty);
  void* used = pool.allocate(4 * kMiB);
  pool.release(pool.allocate(8 * kMiB));
  EXPECT_EQ(pool.empty(), 8 * static_cast<int64_t>(kMiB));
  EXPECT_EQ(pool.stats().reserved, 4 * static_cast<int64_t>(kMiB));
  EXPECT_EQ(pool.stats().peak_reserved, 12 * static_cast<int64_t>(kMiB));
  pool.reset_peaks();
  EXPECT_EQ(pool.stats().peak_reserved, 4 * static_cast<int64_t>(kMiB));
  pool.release(used);
}

TEST(BlockPool, WhatCannotBeMappedIsNull) {
  BlockPool pool(plenty);
  pool.release(pool.allocate(8 * kMiB));
  EXPECT_EQ(pool.allocate(size_t{1} << 60), nullptr);
  EXPECT_EQ(pool.allocate(~size_t{0}), nullptr);
  EXPECT_EQ(pool.stats().allocated, 0);
  EXPECT_EQ(pool.stats().reserved, 0) << "what was kept went first";
}

// Blocks of eight threads, each full of its owner's bytes. The process forks in the middle.
TEST(BlockPool, ThreadsAndAForkLeaveNothingBehind) {
  BlockPool pool(plenty);
  pool.set_capacity(64 * static_cast<int64_t>(kMiB));
  std::atomic<int> wrong{0}, done{0};
  const auto work = [&](unsigned seed) {
    std::minstd_rand random(seed + 1);
    std::vector<std::pair<unsigned char*, size_t>> held;
    for (int step = 0; step < 1250; ++step, ++done) {
      if (held.size() > 3 || (!held.empty() && random() % 2 == 0)) {
        const size_t at = random() % held.size();
        const auto [data, bytes] = held[at];
        wrong += data[0] != seed || data[bytes - 1] != seed;
        pool.release(data);
        held.erase(held.begin() + static_cast<std::ptrdiff_t>(at));
      } else {
        const size_t bytes = kMiB + random() % (3 * kMiB);
        auto* data = static_cast<unsigned char*>(pool.allocate(bytes));
        if (data == nullptr) {
          ++wrong;
          continue;
        }
        data[0] = data[bytes - 1] = static_cast<unsigned char>(seed);
        held.emplace_back(data, bytes);
      }
    }
    for (const auto& [data, bytes] : held) {
      wrong += data[0] != seed || data[bytes - 1] != seed;
      pool.release(data);
    }
  };
  std::vector<std::thread> threads;
  for (unsigned seed = 0; seed < 8; ++seed) {
    threads.emplace_back(work, seed);
  }
  while (done < 5000) {
    std::this_thread::yield();
  }
  const pid_t child = fork();
  if (child == 0) {
    void* data = pool.allocate(5 * kMiB);
    const bool right = data != nullptr && pool.owns(data);
    pool.release(data);
    pool.empty();
    _exit(right && pool.stats().reserved == pool.stats().allocated ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  for (auto& thread : threads) {
    thread.join();
  }
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(pool.stats().allocated, 0);
  pool.empty();
  EXPECT_EQ(pool.stats().reserved, 0);
}

class Machine : public ::testing::Test {
 protected:
  Machine()
      : root_(std::filesystem::temp_directory_path() / ("machine" + std::to_string(getpid()))) {
    write("proc/meminfo", "MemTotal:       1000 kB\nMemFree: 10 kB\nMemAvailable:    600 kB\n");
  }
  ~Machine() override { std::filesystem::remove_all(root_); }
  void write(const std::string& path, const std::string& text) {
    std::filesystem::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text;
  }
  MachineMemory memory() const { return machine_memory(root_.string()); }

 private:
  std::filesystem::path root_;
};

TEST_F(Machine, WithoutCgroupsHasWhatTheKernelSays) {
  EXPECT_EQ(memory().limit, 1000 * 1024);
  EXPECT_EQ(memory().available, 600 * 1024);
}

TEST_F(Machine, TheTightestCgroupCounts) {
  write("proc/self/cgroup", "0::/a/b\n");
  write("sys/fs/cgroup/a/memory.max", "500000\n");
  write("sys/fs/cgroup/a/memory.current", "450000\n");
  write("sys/fs/cgroup/a/memory.stat", "anon 1\ninactive_file 50000\n");
  write("sys/fs/cgroup/a/b/memory.max", "max\n");
  EXPECT_EQ(memory().limit, 500000);
  EXPECT_EQ(memory().available, 100000);
}

TEST_F(Machine, VersionOneCountsToo) {
  write("proc/self/cgroup", "9:cpu,memory:/a\n3:cpuset:/\n");
  write("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "400000\n");
  write("sys/fs/cgroup/memory/a/memory.usage_in_bytes", "100000\n");
  write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_EQ(memory().limit, 400000);
  EXPECT_EQ(memory().available, 300000);
}

// Runs in a child process, because the limit cannot be raised again.
template <class Check>
bool holds_in_child(Check check) {
  const pid_t child = fork();
  if (child == 0) {
    _exit(check() ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

TEST(AddressSpace, WithoutALimitIsUnlimited) {
  EXPECT_TRUE(holds_in_child([] {
    const rlimit none{RLIM_INFINITY, RLIM_INFINITY};
    rlimit now{};
    getrlimit(RLIMIT_AS, &now);
    return now.rlim_cur != RLIM_INFINITY || setrlimit(RLIMIT_DATA, &none) != 0 ||
           address_space().limit == AddressSpace::kUnlimited;
  }));
}

TEST(AddressSpace, OfEachLimitWhatIsMappedIsGone) {
  if (is_emulated()) {
    GTEST_SKIP() << "CPUACCEL_TEST_EMULATED: qemu-user sets no limit of the address space, because "
                    "the limit would hold for qemu, too";
  }
  std::ifstream statm("/proc/self/statm");
  int64_t all = 0, other = 0, data = 0;
  statm >> all >> other >> other >> other >> other >> data;
  for (const auto& [resource, pages] : {std::pair{RLIMIT_AS, all}, {RLIMIT_DATA, data}}) {
    EXPECT_TRUE(holds_in_child([resource = resource, pages = pages] {
      const auto limit = static_cast<rlim_t>(pages * 4096 + kGiB);
      const rlimit limits{limit, limit};
      if (setrlimit(resource, &limits) != 0) {
        return false;
      }
      const auto space = address_space();
      return space.limit == static_cast<int64_t>(limit) && space.available > kGiB / 2 &&
             space.available <= kGiB + kGiB / 2 && address_space("/nowhere").available == 0;
    }));
  }
}

TEST(MachineMemory, OfThisMachineIsThere) {
  EXPECT_GT(machine_memory().limit, 0);
  EXPECT_GT(machine_memory().available, 0);
}

}  // namespace
}  // namespace cpuaccel::memory
