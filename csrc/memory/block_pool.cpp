#include "memory/block_pool.h"

#include <algorithm>
#include <bit>
#include <iterator>
#include <utility>

#include "base/pages.h"

namespace cpuaccel::memory {
namespace {

// Sizes are rounded up to sixteenths of a power of two, so that a block serves sizes near its own.
constexpr size_t kLeastStep = size_t{64} << 10;
size_t rounded(size_t bytes) {
  const size_t step = std::max(kLeastStep, std::bit_floor(bytes) / 16);
  return (bytes + step - 1) / step * step;
}

// What a kept block is larger than what is asked for stays with it up to here, else it is kept on.
size_t largest_rest(size_t bytes) { return bytes / 8; }

// Allocated and kept blocks together over the most that was ever allocated.
constexpr double kSlack = 1.1;

// Less than this part of the memory left is pressure.
constexpr int64_t kLeastAvailable = 16;
constexpr auto kAskAgain = std::chrono::milliseconds(100);  // reading /proc takes some 50 us

}  // namespace

BlockPool::BlockPool(Machine machine) : machine_(std::move(machine)) { set_capacity(-1); }

BlockPool::~BlockPool() { empty(); }

void* BlockPool::allocate(size_t bytes) {
  const size_t size = rounded(bytes);
  if (size < bytes) {
    return nullptr;
  }
  const std::scoped_lock lock(mutex_);
  if (void* data = take_kept(size)) {
    return data;
  }
  ++stats_.misses;
  const auto wanted = static_cast<int64_t>(size);
  if (kept() > 0) {
    const auto most = static_cast<int64_t>(kSlack * static_cast<double>(most_allocated_));
    if (under_pressure(size)) {
      give_all_back();
    } else {
      shrink_to(most - stats_.allocated - wanted);
    }
  }
  void* data = pages_.take(size);
  if (data == nullptr && kept() > 0) {
    give_all_back();
    data = pages_.take(size);
  }
  if (data != nullptr) {
    stats_.reserved += wanted;
    use(data, size);
  }
  return data;
}

void* BlockPool::take_kept(size_t bytes) {
  const auto found = by_size_.lower_bound(bytes);
  if (found == by_size_.end()) {
    return nullptr;
  }
  Kept block = *found->second;
  forget(found->second);
  if (const size_t rest = block.bytes - bytes; rest > largest_rest(bytes)) {
    keep({block.data + bytes, rest});
    block.bytes = bytes;
  }
  ++stats_.hits;
  use(block.data, block.bytes);
  return block.data;
}

void BlockPool::keep(Kept block) {
  // Pages side by side are one block, whether they were mapped together or not.
  const auto after = by_address_.lower_bound(block.data);
  if (after != by_address_.end() && after->first == block.data + block.bytes) {
    block.bytes += after->second->bytes;
    forget(after->second);
  }
  const auto next = by_address_.lower_bound(block.data);
  if (next != by_address_.begin()) {
    const Kept before = *std::prev(next)->second;
    if (before.data + before.bytes == block.data) {
      block = {before.data, before.bytes + block.bytes};
      forget(std::prev(next)->second);
    }
  }
  // The last that was freed is the next to be used: it is still in the cache.
  const auto place = order_.insert(order_.end(), block);
  by_size_.emplace_hint(by_size_.lower_bound(block.bytes), block.bytes, place);
  by_address_.emplace(block.data, place);
}

void BlockPool::forget(Order::iterator place) {
  const auto [first, last] = by_size_.equal_range(place->bytes);
  by_size_.erase(std::find_if(first, last, [&](const auto& row) { return row.second == place; }));
  by_address_.erase(place->data);
  order_.erase(place);
}

void BlockPool::use(void* data, size_t bytes) {
  used_.emplace(data, bytes);
  stats_.allocated += static_cast<int64_t>(bytes);
  stats_.peak_allocated = std::max(stats_.peak_allocated, stats_.allocated);
  stats_.peak_reserved = std::max(stats_.peak_reserved, stats_.reserved);
  most_allocated_ = std::max(most_allocated_, stats_.allocated);
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
  const size_t bytes = found->second;
  used_.erase(found);
  stats_.allocated -= static_cast<int64_t>(bytes);
  keep({static_cast<std::byte*>(data), bytes});
  if (under_pressure(0)) {
    give_all_back();
  } else {
    shrink_to(capacity_);
  }
}

void BlockPool::shrink_to(int64_t bytes) {
  while (!order_.empty() && kept() > bytes) {
    const Kept block = order_.front();
    forget(order_.begin());
    // Blocks that were joined may be far more than what is too much.
    const auto excess = static_cast<size_t>(kept() - std::max<int64_t>(bytes, 0));
    const size_t part = std::min(block.bytes, (excess + kHugePage - 1) / kHugePage * kHugePage);
    pages_.give_back(block.data + block.bytes - part, part);
    stats_.reserved -= static_cast<int64_t>(part);
    ++stats_.trims;
    if (part < block.bytes) {
      keep({block.data, block.bytes - part});
    }
  }
}

void BlockPool::give_all_back() {
  shrink_to(0);
  pages_.drop_free();
}

bool BlockPool::under_pressure(size_t bytes) {
  const auto now = std::chrono::steady_clock::now();
  if (now - asked_ >= kAskAgain) {
    asked_ = now;
    answer_ = machine_();
  }
  return answer_.available - static_cast<int64_t>(bytes) < answer_.limit / kLeastAvailable;
}

int64_t BlockPool::empty() {
  const std::scoped_lock lock(mutex_);
  const int64_t before = kept();
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
