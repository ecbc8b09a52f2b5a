#include "plan/arena.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace cpuaccel::plan {
namespace {

// Values that share memory because one overwrites the other.
struct Block {
  size_t bytes, first, last;
  size_t offset = 0;
};

constexpr size_t kAlignment = 64;
size_t aligned(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

bool meet(const Block& a, const Block& b) { return a.first <= b.last && b.first <= a.last; }

// The lowest offset that is free during the whole lifetime; `placed` are sorted by offset.
size_t lowest_place(const Block& block, const std::vector<const Block*>& placed) {
  size_t offset = 0;
  for (const Block* other : placed) {
    if (!meet(block, *other)) {
      continue;
    }
    if (offset + block.bytes <= other->offset) {
      break;
    }
    offset = std::max(offset, other->offset + other->bytes);
  }
  return offset;
}

// Gives each block its offset, in this order. Returns how many bytes they take together.
size_t place_in_order(std::vector<Block>& blocks, const std::vector<size_t>& order) {
  std::vector<const Block*> placed;
  size_t bytes = 0;
  for (const size_t i : order) {
    Block& block = blocks[i];
    block.offset = lowest_place(block, placed);
    bytes = std::max(bytes, block.offset + block.bytes);
    const auto after = [](size_t offset, const Block* other) { return offset < other->offset; };
    placed.insert(std::upper_bound(placed.begin(), placed.end(), block.offset, after), &block);
  }
  return bytes;
}

}  // namespace

Arena plan_arena(const std::vector<Lifetime>& lifetimes) {
  std::vector<Block> blocks;
  std::vector<size_t> block_of;  // of each value
  for (const auto& lifetime : lifetimes) {
    if (lifetime.over >= 0) {
      const size_t number = block_of[static_cast<size_t>(lifetime.over)];
      blocks[number].last = std::max(blocks[number].last, lifetime.last);
      block_of.push_back(number);
    } else {
      block_of.push_back(blocks.size());
      blocks.push_back({aligned(lifetime.bytes), lifetime.first, lifetime.last});
    }
  }
  std::vector<size_t> in_time(blocks.size());
  std::iota(in_time.begin(), in_time.end(), size_t{0});
  auto by_size = in_time;
  std::stable_sort(by_size.begin(), by_size.end(),
                   [&](size_t a, size_t b) { return blocks[a].bytes > blocks[b].bytes; });
  auto by_time = blocks;
  Arena arena;
  arena.bytes = place_in_order(blocks, by_size);
  if (const size_t bytes = place_in_order(by_time, in_time); bytes < arena.bytes) {
    arena.bytes = bytes;
    blocks = std::move(by_time);
  }
  for (const size_t number : block_of) {
    arena.offsets.push_back(blocks[number].offset);
  }
  return arena;
}

}  // namespace cpuaccel::plan
