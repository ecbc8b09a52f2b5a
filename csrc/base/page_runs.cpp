#include "base/page_runs.h"

#include <algorithm>
#include <cstdint>
#include <iterator>

#include "base/fork.h"
#include "base/pages.h"

namespace cpuaccel {
namespace {

// Mapped at a time. What nobody has written to is not resident.
constexpr size_t kRun = size_t{32} << 20;

constexpr size_t rounded_up(size_t bytes, size_t multiple) {
  return (bytes + multiple - 1) / multiple * multiple;
}

}  // namespace

PageRuns::PageRuns() : mutex_(fork_safe_mutex(ForkLevel::pages, this)) {}

PageRuns::~PageRuns() {
  for (const auto& [data, size] : free_) {
    unmap_pages(data, size);
  }
}

std::byte* PageRuns::take(size_t bytes) {
  const std::scoped_lock lock(mutex_);
  auto best = free_.end();
  for (auto run = free_.begin(); run != free_.end(); ++run) {
    if (run->second >= bytes && (best == free_.end() || run->second < best->second)) {
      best = run;
    }
  }
  if (best == free_.end()) {
    size_t size = rounded_up(std::max(bytes, kRun), kHugePage);
    auto* mapped = static_cast<std::byte*>(map_pages(size));
    if (mapped == nullptr) {
      size = rounded_up(bytes, kHugePage);
      mapped = static_cast<std::byte*>(map_pages(size));
    }
    if (mapped == nullptr) {
      return nullptr;
    }
    best = free_.emplace(mapped, size).first;
  }
  const auto [data, size] = *best;
  free_.erase(best);
  if (size > bytes) {
    free_.emplace(data + bytes, size - bytes);
  }
  return data;
}

void PageRuns::give_back(std::byte* data, size_t bytes) {
  const std::scoped_lock lock(mutex_);
  const auto after = free_.lower_bound(data);
  if (after != free_.end() && after->first == data + bytes) {
    bytes += after->second;
    free_.erase(after);
  }
  if (const auto next = free_.lower_bound(data); next != free_.begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second == data) {
      data = before->first;
      bytes += before->second;
      free_.erase(before);
    }
  }
  // The huge pages within, and what is left at both ends.
  const auto begin = reinterpret_cast<uintptr_t>(data);
  const size_t head = rounded_up(begin, kHugePage) - begin;
  const size_t pages = bytes > head ? (bytes - head) / kHugePage * kHugePage : 0;
  if (pages == 0) {
    free_.emplace(data, bytes);
    return;
  }
  unmap_pages(data + head, pages);
  if (head > 0) {
    free_.emplace(data, head);
  }
  if (const size_t tail = bytes - head - pages; tail > 0) {
    free_.emplace(data + head + pages, tail);
  }
}

void PageRuns::drop_free() {
  const std::scoped_lock lock(mutex_);
  for (const auto& [data, size] : free_) {
    drop_pages(data, size);
  }
}

size_t PageRuns::free_bytes() const {
  const std::scoped_lock lock(mutex_);
  size_t bytes = 0;
  for (const auto& [data, size] : free_) {
    bytes += size;
  }
  return bytes;
}

}  // namespace cpuaccel
