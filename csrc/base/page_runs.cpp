#include "base/page_runs.h"

#include <algorithm>
#include <cstdint>
#include <iterator>

#include "base/fork.h"
#include "base/pages.h"

namespace cpuaccel {
namespace {

// Bytes mapped at a time. Pages that were not written to are not resident.
constexpr size_t kRun = size_t{32} << 20;

constexpr size_t rounded_up(size_t bytes, size_t multiple) {
  return (bytes + multiple - 1) / multiple * multiple;
}

}  // namespace

PageRuns::PageRuns() : mutex_(fork_safe_mutex(ForkLevel::pages, this)) {}

PageRuns::~PageRuns() {
  for (const auto& [data, run] : free_) {
    unmap_pages(data, run.bytes);
  }
}

std::byte* PageRuns::take(size_t bytes) {
  const std::scoped_lock lock(mutex_);
  auto best = free_.end();
  for (auto run = free_.begin(); run != free_.end(); ++run) {
    if (run->second.bytes >= bytes &&
        (best == free_.end() || run->second.bytes < best->second.bytes)) {
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
    best = free_.emplace(mapped, Free{size, 0}).first;
  }
  const auto [data, run] = *best;
  free_.erase(best);
  if (run.bytes > bytes) {
    free_.emplace(data + bytes, Free{run.bytes - bytes, run.used - std::min(run.used, bytes)});
  }
  return data;
}

void PageRuns::give_back(std::byte* data, size_t bytes) {
  const std::scoped_lock lock(mutex_);
  size_t used = bytes;
  const auto after = free_.lower_bound(data);
  if (after != free_.end() && after->first == data + bytes) {
    bytes += after->second.bytes;
    used += after->second.used;
    free_.erase(after);
  }
  if (const auto next = free_.lower_bound(data); next != free_.begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second.bytes == data) {
      data = before->first;
      bytes += before->second.bytes;
      used += before->second.used;
      free_.erase(before);
    }
  }
  // Unmaps the huge pages within and keeps the rest at both ends.
  const auto begin = reinterpret_cast<uintptr_t>(data);
  const size_t head = rounded_up(begin, kHugePage) - begin;
  const size_t pages = bytes > head ? (bytes - head) / kHugePage * kHugePage : 0;
  if (pages == 0) {
    free_.emplace(data, Free{bytes, used});
    return;
  }
  unmap_pages(data + head, pages);
  if (head > 0) {
    free_.emplace(data, Free{head, std::min(head, used)});
  }
  if (const size_t tail = bytes - head - pages; tail > 0) {
    free_.emplace(data + head + pages, Free{tail, std::min(tail, used)});
  }
}

void PageRuns::drop_free() {
  const std::scoped_lock lock(mutex_);
  for (auto& [data, run] : free_) {
    if (run.used > 0) {
      drop_pages(data, run.bytes);
      run.used = 0;
    }
  }
}

void PageRuns::unmap_free() {
  const std::scoped_lock lock(mutex_);
  for (const auto& [data, run] : free_) {
    unmap_pages(data, run.bytes);
  }
  free_.clear();
}

size_t PageRuns::free_bytes() const {
  const std::scoped_lock lock(mutex_);
  size_t bytes = 0;
  for (const auto& [data, run] : free_) {
    bytes += run.bytes;
  }
  return bytes;
}

size_t PageRuns::used_free_bytes() const {
  const std::scoped_lock lock(mutex_);
  size_t bytes = 0;
  for (const auto& [data, run] : free_) {
    bytes += run.used;
  }
  return bytes;
}

}  // namespace cpuaccel
