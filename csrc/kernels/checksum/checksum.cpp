#include "kernels/checksum/checksum.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>

#include "base/parallel.h"
#include "kernels/round_up.h"

namespace cpuaccel::kernels {
namespace {

constexpr std::array kRows{
#define CPUACCEL_KERNEL(name) CPUACCEL_ROW(KernelRow<ChecksumFunction>, name, checksum_##name)
#include "kernels/checksum/kernels.inc"
#undef CPUACCEL_KERNEL
};

constexpr int64_t kChunk = 256 * kChecksumBlock;  // some microseconds, as long as waking a thread

// Bijective on 64 bits (the finalizer of splitmix64). It mixes in a chunk's index, so that chunks
// can be added up in any order.
uint64_t scrambled(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

uint64_t chunk_sum(ChecksumFunction* function, const uint8_t* src, int64_t bytes, int64_t chunk) {
  const int64_t blocks = bytes / kChecksumBlock;
  uint64_t sum = function(src, blocks);
  if (const int64_t rest = bytes % kChecksumBlock; rest > 0) {
    std::array<uint8_t, kChecksumBlock> last{};
    std::memcpy(last.data(), src + blocks * kChecksumBlock, static_cast<size_t>(rest));
    sum = sum * kChecksumFactor + function(last.data(), 1);
  }
  return scrambled(sum + kChecksumFactor * static_cast<uint64_t>(chunk + 1));
}

}  // namespace

std::span<const KernelRow<ChecksumFunction>> checksum_kernels() { return kRows; }

uint64_t checksum(const void* src, int64_t bytes) {
  const auto* from = static_cast<const uint8_t*>(src);
  auto* function = first_usable(checksum_kernels()).function;
  const int64_t chunks = divide_up(bytes, kChunk);
  std::atomic<uint64_t> total{scrambled(static_cast<uint64_t>(bytes))};
  parallel_for(0, chunks, 4, [&](int64_t begin, int64_t end) {
    uint64_t sum = 0;
    for (int64_t chunk = begin; chunk < end; ++chunk) {
      const int64_t first = chunk * kChunk;
      sum += chunk_sum(function, from + first, std::min(kChunk, bytes - first), chunk);
    }
    total.fetch_add(sum, std::memory_order_relaxed);
  });
  return total.load();
}

}  // namespace cpuaccel::kernels
