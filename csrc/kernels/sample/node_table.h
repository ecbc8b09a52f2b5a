// Hash table from a node to its number among the nodes sampled so far.
//
// The table consists of parts. Each thread looks at all keys and handles those of its own parts. So
// threads share no data, and the result does not depend on their number.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "kernels/sample/numbers.h"

namespace cpuaccel::kernels {

class NodeTable {
 public:
  static constexpr int64_t kMostNodes = INT32_MAX;

  // Removes all keys, keeps the memory.
  void clear();

  // Gives the key the number `id` unless it has one.
  void insert(int64_t key, int64_t id);

  // Sets ids[i] to the number of keys[i]. Keys without a number get next, next + 1, ... in the
  // order in which they first appear, and their places in `keys` are added to `firsts`. Throws
  // std::length_error if a number would exceed kMostNodes.
  void number(const int64_t* keys, int64_t count, int64_t next, int64_t* ids, Numbers& firsts);

  // The number of a key, or -1.
  int64_t find(int64_t key) const;

  size_t bytes() const;

 private:
  static constexpr int kPartBits = 4;
  static constexpr int64_t kParts = 1 << kPartBits;

  // id: while it is unknown, -1 - the place where the key first appears.
  struct Slot {
    int64_t key;
    int32_t id;
    uint32_t round;  // if not the table's, the slot is empty
  };
  struct Part {
    std::vector<Slot> slots;     // a power of two
    std::vector<int64_t> fresh;  // slots with unknown id
    int64_t size = 0;
  };

  static uint64_t hash(int64_t key);
  static int64_t part_of(uint64_t hash) { return static_cast<int64_t>(hash >> (64 - kPartBits)); }
  // The key's slot, or the empty slot where it would go.
  size_t place(const Part& part, uint64_t hash, int64_t key) const;
  void make_room(Part& part);
  void number_some(const int64_t* keys, int64_t count, int64_t next, int64_t* ids, Numbers& firsts);
  void look_up(const int64_t* keys, int64_t count, int64_t first_part, int64_t last_part,
               int64_t* ids);

  std::array<Part, kParts> parts_;
  uint32_t round_ = 1;
};

}  // namespace cpuaccel::kernels
