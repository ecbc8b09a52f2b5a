#include "kernels/sample/node_table.h"

#include <algorithm>
#include <stdexcept>

#include "base/parallel.h"

namespace cpuaccel::kernels {
namespace {

constexpr size_t kFewestSlots = 64;
constexpr int64_t kGrain = 1 << 12;  // keys
constexpr int64_t kChunk = 1 << 30;  // keys numbered together: places must fit into an id
constexpr int64_t kAhead = 16;       // keys whose slots are prefetched

}  // namespace

uint64_t NodeTable::hash(int64_t key) {
  const uint64_t product = static_cast<uint64_t>(key) * 0x9e3779b97f4a7c15ull;
  return product ^ (product >> 32);
}

size_t NodeTable::place(const Part& part, uint64_t hash, int64_t key) const {
  const size_t last = part.slots.size() - 1;
  size_t at = hash & last;
  while (part.slots[at].round == round_ && part.slots[at].key != key) {
    at = (at + 1) & last;
  }
  return at;
}

void NodeTable::make_room(Part& part) {
  if (2 * (static_cast<size_t>(part.size) + 1) <= part.slots.size()) {
    return;
  }
  std::vector<Slot> before(std::max(kFewestSlots, 2 * part.slots.size()), Slot{0, 0, 0});
  before.swap(part.slots);
  part.fresh.clear();
  for (const Slot& slot : before) {
    if (slot.round == round_) {
      const size_t at = place(part, hash(slot.key), slot.key);
      part.slots[at] = slot;
      if (slot.id < 0) {
        part.fresh.push_back(static_cast<int64_t>(at));
      }
    }
  }
}

void NodeTable::clear() {
  ++round_;
  for (Part& part : parts_) {
    part.size = 0;
    part.fresh.clear();
    if (round_ == 0) {
      std::ranges::fill(part.slots, Slot{0, 0, 0});
    }
  }
  round_ += round_ == 0 ? 1 : 0;
}

void NodeTable::insert(int64_t key, int64_t id) {
  const uint64_t hashed = hash(key);
  Part& part = parts_[static_cast<size_t>(part_of(hashed))];
  make_room(part);
  Slot& slot = part.slots[place(part, hashed, key)];
  if (slot.round != round_) {
    slot = {key, static_cast<int32_t>(id), round_};
    ++part.size;
  }
}

int64_t NodeTable::find(int64_t key) const {
  const uint64_t hashed = hash(key);
  const Part& part = parts_[static_cast<size_t>(part_of(hashed))];
  if (part.slots.empty()) {
    return -1;
  }
  const Slot& slot = part.slots[place(part, hashed, key)];
  return slot.round == round_ ? slot.id : -1;
}

void NodeTable::look_up(const int64_t* keys, int64_t count, int64_t first_part, int64_t last_part,
                        int64_t* ids) {
  for (int64_t i = 0; i < count; ++i) {
    const uint64_t ahead = hash(keys[std::min(i + kAhead, count - 1)]);
    if (part_of(ahead) >= first_part && part_of(ahead) < last_part) {
      const auto& slots = parts_[static_cast<size_t>(part_of(ahead))].slots;
      __builtin_prefetch(slots.data() + (slots.empty() ? 0 : ahead & (slots.size() - 1)));
    }
    const uint64_t hashed = hash(keys[i]);
    if (part_of(hashed) < first_part || part_of(hashed) >= last_part) {
      continue;
    }
    Part& part = parts_[static_cast<size_t>(part_of(hashed))];
    make_room(part);
    const size_t at = place(part, hashed, keys[i]);
    Slot& slot = part.slots[at];
    if (slot.round != round_) {
      slot = {keys[i], static_cast<int32_t>(-1 - i), round_};
      ++part.size;
      part.fresh.push_back(static_cast<int64_t>(at));
    }
    ids[i] = slot.id;
  }
}

void NodeTable::number_some(const int64_t* keys, int64_t count, int64_t next, int64_t* ids,
                            Numbers& firsts) {
  const int64_t grain = count > kGrain ? 1 : kParts;
  parallel_for(0, kParts, grain, [&](int64_t first_part, int64_t last_part) {
    look_up(keys, count, first_part, last_part, ids);
  });
  for (int64_t i = 0; i < count; ++i) {
    if (ids[i] >= 0) {
      continue;
    }
    if (const int64_t first = -1 - ids[i]; first != i) {
      ids[i] = ids[first];
    } else {
      ids[i] = next++;
      firsts.push_back(i);
    }
  }
  parallel_for(0, kParts, grain, [&](int64_t first_part, int64_t last_part) {
    for (int64_t p = first_part; p < last_part; ++p) {
      Part& part = parts_[static_cast<size_t>(p)];
      for (const int64_t at : part.fresh) {
        Slot& slot = part.slots[static_cast<size_t>(at)];
        slot.id = static_cast<int32_t>(ids[-1 - slot.id]);
      }
      part.fresh.clear();
    }
  });
}

void NodeTable::number(const int64_t* keys, int64_t count, int64_t next, int64_t* ids,
                       Numbers& firsts) {
  for (int64_t begin = 0; begin < count; begin += kChunk) {
    const int64_t size = std::min(kChunk, count - begin), known = firsts.size();
    if (next > kMostNodes - size) {
      throw std::length_error("more than 2^31 - 1 nodes in a sample");
    }
    number_some(keys + begin, size, next, ids + begin, firsts);
    for (int64_t i = known; i < firsts.size(); ++i) {
      firsts[i] += begin;
    }
    next += firsts.size() - known;
  }
}

size_t NodeTable::bytes() const {
  size_t total = 0;
  for (const Part& part : parts_) {
    total += part.slots.capacity() * sizeof(Slot) + part.fresh.capacity() * sizeof(int64_t);
  }
  return total;
}

}  // namespace cpuaccel::kernels
