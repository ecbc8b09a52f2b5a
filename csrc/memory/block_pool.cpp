#include "memory/block_pool.h"

#include <algorithm>
#include <bit>
#include <iterator>
#include <utility>

#include "base/pages.h"

namespace cpuaccel::memory {
namespace {

// Sizes are rounded up to 32nds of a power of two, so that a block serves similar sizes. Small
// blocks have an extra page for contents().
constexpr size_t kSmallestStep = size_t{16} << 10, kSmallBlock = size_t{2} << 20;
size_t rounded(size_t bytes) {
  const size_t step = std::max(kSmallestStep, std::bit_floor(bytes) / 32);
  const size_t whole = (bytes + step - 1) / step * step;
  return whole <= kSmallBlock ? whole + PageRuns::kGrain : whole;
}

constexpr size_t kLine = 64, kOffsets = 16;
static_assert(kLine * kOffsets <= PageRuns::kGrain);

// Offset of a small block's contents: some cache lines, depending on its page. Operands that all
// begin at a page boundary map to the same L1 sets row by row: a product of 256x256 doubles took 9%
// longer.
size_t contents_offset(const void* data) {
  return reinterpret_cast<uintptr_t>(data) / PageRuns::kGrain % kOffsets * kLine;
}

std::byte* contents(std::byte* block, size_t bytes) {
  return bytes <= kSmallBlock ? block + contents_offset(block) : block;
}

size_t offset_in_page(const void* data) {
  return reinterpret_cast<uintptr_t>(data) % PageRuns::kGrain;
}

std::byte* block_of(void* contents) {
  return static_cast<std::byte*>(contents) - offset_in_page(contents);
}

// A cached block may exceed the request by up to this; a larger rest is split off and cached.
size_t largest_rest(size_t bytes) { return bytes / 16; }

// Limit of allocated and cached blocks together, relative to the most that was ever requested.
constexpr double kSlack = 1.1;

// There is pressure if less than this fraction (1 / 16) of the memory is left.
constexpr int64_t kAvailableShare = 16;
constexpr auto kAskAgain = std::chrono::milliseconds(100);  // reading /proc takes about 50 us

// Other code (numpy, malloc) cannot use memory that is cached here, nor ask for it back if the
// address space is limited. So only this fraction (1 / 16) of what it could map is cached.
constexpr int64_t kAddressShare = 16;

// Reading the limits takes two system calls, as long as a kernel runs on a block of a megabyte. If
// there was no limit, they are read again after kAskAgain, and whenever a block of this size is
// freed, because filling it takes much longer than the calls.
constexpr size_t kLargeBlock = size_t{8} << 20;

// Memory that was cached for a whole window and that no allocation needed is idle. The window grows
// if idle memory was soon mapped again, because steps of training may take longer than a window.
constexpr auto kShortestWindow = std::chrono::seconds(4);
constexpr auto kLongestWindow = std::chrono::seconds(64);

// Resident fragments of huge pages are returned once they exceed this fraction (1 / 32) of the most
// that was requested.
constexpr int64_t kFragments = 32;

}  // namespace

BlockPool::BlockPool(Machine machine, Address address, Clock clock)
    : machine_(std::move(machine)),
      address_(std::move(address)),
      clock_(std::move(clock)),
      window_began_(clock_()),
      window_(kShortestWindow) {
  set_capacity(-1);
}

BlockPool::~BlockPool() { empty(); }

void* BlockPool::allocate(size_t bytes) {
  const size_t size = rounded(bytes);
  if (size < bytes) {
    return nullptr;
  }
  const std::scoped_lock lock(mutex_);
  if (void* data = take_cached(size, bytes)) {
    return data;
  }
  ++stats_.misses;
  const auto wanted = static_cast<int64_t>(size);
  const auto most = static_cast<int64_t>(kSlack * static_cast<double>(most_wanted_));
  if (cached() > 0) {
    if (under_pressure(size, clock_())) {
      give_all_back();
    } else {
      shrink_to(most - stats_.allocated - wanted);
    }
  }
  drop_fragments(most - wanted);
  std::byte* block = pages_.take(size);
  if (block == nullptr) {
    give_all_back();
    pages_.unmap_free();
    block = pages_.take(size);
  }
  if (block == nullptr) {
    return nullptr;
  }
  const int64_t again = std::min(wanted, idle_returned_);
  idle_returned_ -= again;
  idle_remapped_ += again;
  stats_.reserved += wanted;
  return use({block, size}, bytes);
}

void* BlockPool::take_cached(size_t bytes, size_t wanted) {
  const auto found = by_size_.lower_bound(bytes);
  if (found == by_size_.end()) {
    return nullptr;
  }
  Block block = *found->second;
  drop(found->second);
  if (const size_t rest = block.bytes - bytes; rest > largest_rest(bytes)) {
    cache({block.data + bytes, rest});
    block.bytes = bytes;
  }
  ++stats_.hits;
  return use(block, wanted);
}

void BlockPool::cache(Block block) {
  // Adjacent pages form one block, whether they were mapped together or not.
  const auto after = by_address_.lower_bound(block.data);
  if (after != by_address_.end() && after->first == block.data + block.bytes) {
    block.bytes += after->second->bytes;
    drop(after->second);
  }
  const auto next = by_address_.lower_bound(block.data);
  if (next != by_address_.begin()) {
    const Block before = *std::prev(next)->second;
    if (before.data + before.bytes == block.data) {
      block = {before.data, before.bytes + block.bytes};
      drop(std::prev(next)->second);
    }
  }
  // The block that was freed last is reused first, because it is still in the cache.
  const auto position = cached_blocks_.insert(cached_blocks_.end(), block);
  by_size_.emplace_hint(by_size_.lower_bound(block.bytes), block.bytes, position);
  by_address_.emplace(block.data, position);
  has_cached_.store(true, std::memory_order_relaxed);
}

void BlockPool::drop(Blocks::iterator position) {
  const auto [first, last] = by_size_.equal_range(position->bytes);
  by_size_.erase(
      std::find_if(first, last, [&](const auto& row) { return row.second == position; }));
  by_address_.erase(position->data);
  cached_blocks_.erase(position);
  has_cached_.store(!cached_blocks_.empty(), std::memory_order_relaxed);
}

void* BlockPool::use(Block block, size_t wanted) {
  void* data = contents(block.data, wanted);
  used_.emplace(data, Used{block.bytes, wanted});
  wanted_ += static_cast<int64_t>(wanted);
  most_wanted_ = std::max(most_wanted_, wanted_);
  stats_.allocated += static_cast<int64_t>(block.bytes);
  stats_.peak_allocated = std::max(stats_.peak_allocated, stats_.allocated);
  stats_.peak_reserved = std::max(stats_.peak_reserved, stats_.reserved);
  note_least_cached();
  return data;
}

bool BlockPool::may_own(const void* data) {
  const size_t offset = offset_in_page(data);
  return offset == 0 || offset == contents_offset(data);
}

bool BlockPool::owns(void* data) const {
  const std::scoped_lock lock(mutex_);
  return used_.contains(data);
}

void BlockPool::release(void* data) {
  const std::scoped_lock lock(mutex_);
  const auto found = used_.find(data);
  if (found == used_.end()) {
    return;
  }
  const auto [bytes, wanted] = found->second;
  used_.erase(found);
  stats_.allocated -= static_cast<int64_t>(bytes);
  wanted_ -= static_cast<int64_t>(wanted);
  cache({block_of(data), bytes});
  trim(bytes);
}

void BlockPool::age() {
  const std::scoped_lock lock(mutex_);
  if (cached() > 0) {
    trim(0);
  }
}

void BlockPool::trim(size_t released) {
  const Time now = clock_();
  if (under_pressure(0, now)) {
    give_all_back();
    return;
  }
  give_idle_back(now);
  shrink_to(capacity_);
  if (const int64_t allowed = address_allowance(released, now); cached() > allowed) {
    shrink_to(allowed);
    pages_.unmap_free();
  }
}

int64_t BlockPool::address_allowance(size_t released, Time now) {
  if (space_.limit != AddressSpace::kUnlimited || released >= kLargeBlock ||
      now - space_asked_ >= kAskAgain) {
    space_asked_ = now;
    space_ = address_();
  }
  if (space_.limit == AddressSpace::kUnlimited) {
    return AddressSpace::kUnlimited;
  }
  return (space_.available + cached()) / kAddressShare;
}

void BlockPool::give_idle_back(Time now) {
  if (now - window_began_ < window_) {
    return;
  }
  if (idle_remapped_ > idle_returned_) {
    window_ = std::min(2 * window_, std::chrono::seconds(kLongestWindow));
    idle_returned_ = 0;
  }
  idle_remapped_ = 0;
  const int64_t before = cached();
  shrink_to(before - least_cached_);
  idle_returned_ = idle_returned_ / 2 + before - cached();
  window_began_ = now;
  least_cached_ = cached();
}

void BlockPool::drop_fragments(int64_t limit) {
  const auto fragments = static_cast<int64_t>(pages_.used_free_bytes());
  if (fragments > most_wanted_ / kFragments && stats_.reserved + fragments > limit) {
    pages_.drop_free();
  }
}

void BlockPool::shrink_to(int64_t bytes) {
  while (!cached_blocks_.empty() && cached() > bytes) {
    const Block block = cached_blocks_.front();
    drop(cached_blocks_.begin());
    // Joined blocks may be much larger than the excess.
    const auto excess = static_cast<size_t>(cached() - std::max<int64_t>(bytes, 0));
    const size_t part = std::min(block.bytes, (excess + kHugePage - 1) / kHugePage * kHugePage);
    pages_.give_back(block.data + block.bytes - part, part);
    stats_.reserved -= static_cast<int64_t>(part);
    ++stats_.trims;
    if (part < block.bytes) {
      cache({block.data, block.bytes - part});
    }
  }
  note_least_cached();
}

void BlockPool::give_all_back() {
  shrink_to(0);
  pages_.drop_free();
}

bool BlockPool::under_pressure(size_t bytes, Time now) {
  if (now - asked_ >= kAskAgain) {
    asked_ = now;
    answer_ = machine_();
  }
  return answer_.available - static_cast<int64_t>(bytes) < answer_.limit / kAvailableShare;
}

int64_t BlockPool::empty() {
  const std::scoped_lock lock(mutex_);
  const int64_t before = cached();
  give_all_back();
  return before;
}

void BlockPool::set_capacity(int64_t bytes) {
  const std::scoped_lock lock(mutex_);
  capacity_ = bytes < 0 ? machine_().limit / 2 : bytes;
  shrink_to(capacity_);
}

PoolStats BlockPool::stats() const {
  const std::scoped_lock lock(mutex_);
  return stats_;
}

void BlockPool::reset_peaks() {
  const std::scoped_lock lock(mutex_);
  stats_.peak_allocated = stats_.allocated;
  stats_.peak_reserved = stats_.reserved;
}

}  // namespace cpuaccel::memory
