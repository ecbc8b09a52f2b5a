// Which number a node has among those sampled so far.
//
// A hash table in parts. Each part belongs to one thread, which looks at all keys and handles those
// of its parts; so threads share nothing, and what comes out does not depend on how many there are.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "kernels/sample/numbers.h"

namespace cpuaccel::kernels {

class NodeTable {
 public:
  static constexpr int64_t kMostNodes = INT32_MAX;

  // Forgets every key, and keeps the memory.
  void clear();

  // `id` is the key's number unless it has one.
  void insert(int64_t key, int64_t id);

  // ids[i] is the number of keys[i]. Keys that have none get next, next + 1, ... in the order in
  // which they first appear, and these places in `keys` are added to `firsts`. Throws
  // std::length_error if a number were above kMostNodes.
  void number(const int64_t* keys, int64_t count, int64_t next, int64_t* ids, Numbers& firsts);

  // Of a key; -1 if it has none.
  int64_t find(int64_t key) const;

  size_t bytes() const;

 private:
  static constexpr int kPartBits = 4;
  static constexpr int64_t kParts = 1 << kPartBits;

  // id: below 0 while it is not known, -1 - where the key first appears.
  struct Slot {
    int64_t key;
    int32_t id;
    uint32_t round;  // others than the table's: the slot is empty
  };
  struct Part {
    std::vector<Slot> slots;     // a power of two of them
    std::vector<int64_t> fresh;  // slots whose id is not known
    int64_t size = 0;
  };

  static uint64_t hash(int64_t key);
  static int64_t part_of(uint64_t hash) { return static_cast<int64_t>(hash >> (64 - kPartBits)); }
  // The key's slot, or the empty one where it would be.
  size_t place(const Part& part, uint64_t hash, int64_t key) const;
  void make_room(Part& part);
  void number_some(const int64_t* keys, int64_t count, int64_t next, int64_t* ids, Numbers& firsts);
  void look_up(const int64_t* keys, int64_t count, int64_t first_part, int64_t last_part,
               int64_t* ids);

  std::array<Part, kParts> parts_;
  uint32_t round_ = 1;
};

}  // namespace cpuaccel::kernels
