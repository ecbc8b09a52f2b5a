// Concatenations that take up the one before them and more behind it, as DenseNets have them: each
// is the beginning of the longest one, and copies only what is new to it.
#pragma once

#include <cstddef>
#include <unordered_map>
#include <vector>

#include "graph/build.h"

namespace cpuaccel::graph {

class GrownConcats {
 public:
  explicit GrownConcats(const Program& program);

  // Adds the step of `partition`, the one with that number; false, and nothing added, where it is
  // none of these, something other than batch norms of ours reads it, or its channels are not those
  // that the program was traced with.
  bool add(Building& building, size_t partition);

 private:
  // One of some concatenations in a row.
  struct Grown {
    const Operation* operation;
    const Operation* before;  // the one whose channels this one begins with; null of the first
    int64_t channels;         // of the last one
  };

  bool is_read_by_norms(const Building& building, Id id) const;

  const Program& program_;
  std::unordered_map<size_t, Grown> grown_;  // by partition
  std::unordered_map<Id, Id> memory_;        // by the result of one: of all of them
};

}  // namespace cpuaccel::graph
