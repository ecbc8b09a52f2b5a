#include "torch_ao/lookup_table_cache.h"

#include <algorithm>
#include <memory>

namespace cpuaccel::torch_ao {
namespace {

// 4-way set associative, so that the tables of one model don't evict each other.
constexpr size_t kSets = 64;
constexpr size_t kWays = 4;

struct Entry {
  LookupTableKey key;
  LookupTable table;
};

struct Set {
  std::array<Entry, kWays> entries;
  size_t oldest = 0;
};

size_t set_of(const LookupTableKey& key) {
  uint64_t hash = std::bit_cast<uint64_t>(key.scale) ^ static_cast<uint64_t>(key.zero_point);
  hash ^= reinterpret_cast<uintptr_t>(key.op);
  for (size_t i = 0; i < key.used; ++i) {
    hash = (hash ^ key.words[i]) * 0x9e3779b97f4a7c15;  // 2^64 / golden ratio: mixes upward
  }
  return (hash * 0x9e3779b97f4a7c15) >> 58;
}
static_assert(kSets == size_t{1} << (64 - 58));

}  // namespace

const LookupTable& cached_lookup_table(const LookupTableKey& key,
                                       c10::function_ref<LookupTable()> make) {
  thread_local std::unique_ptr<std::array<Set, kSets>> sets;
  if (!sets) {
    sets = std::make_unique<std::array<Set, kSets>>();
  }
  auto& set = (*sets)[set_of(key)];
  const auto found = std::ranges::find(set.entries, key, &Entry::key);
  if (found != set.entries.end()) {
    return found->table;
  }
  const LookupTable table = make();
  auto& entry = set.entries[set.oldest];
  set.oldest = (set.oldest + 1) % kWays;
  entry.key = key;
  entry.table = table;
  return entry.table;
}

}  // namespace cpuaccel::torch_ao
