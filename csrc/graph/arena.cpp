#include "graph/arena.h"

#include <algorithm>

namespace cpuaccel::graph {
namespace {

struct Held {
  size_t offset, bytes, last;
};

constexpr size_t kAlignment = 64;
size_t aligned(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

}  // namespace

Arena plan_arena(const std::vector<Lifetime>& lifetimes) {
  Arena arena;
  std::vector<Held> held;  // by offset
  for (const auto& lifetime : lifetimes) {
    std::erase_if(held, [&](const Held& other) { return other.last < lifetime.first; });
    const size_t bytes = aligned(lifetime.bytes);
    if (lifetime.over >= 0) {
      const size_t offset = arena.offsets[static_cast<size_t>(lifetime.over)];
      const auto same = std::find_if(held.begin(), held.end(),
                                     [&](const Held& other) { return other.offset == offset; });
      same->last = lifetime.last;
      arena.offsets.push_back(offset);
      continue;
    }
    size_t offset = 0;
    auto next = held.begin();
    for (; next != held.end() && offset + bytes > next->offset; ++next) {
      offset = std::max(offset, next->offset + next->bytes);
    }
    held.insert(next, {offset, bytes, lifetime.last});
    arena.offsets.push_back(offset);
    arena.bytes = std::max(arena.bytes, offset + bytes);
  }
  return arena;
}

}  // namespace cpuaccel::graph
