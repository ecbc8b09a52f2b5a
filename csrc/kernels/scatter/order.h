// Sorts the entries of a scatter by dst row. In index order, each entry reads and writes its dst
// row, which is slow for rows of a kilobyte and more if dst is in a distant cache. In sorted order,
// each row is read and written once.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "kernels/scatter/scatter.h"

namespace cpuaccel::kernels {

// Owns the arrays of its order().
struct SortedEntries {
  std::vector<int32_t> begins, entries;

  ScatterOrder order() const { return {.begins = begins.data(), .entries = entries.data()}; }
};

// Returns nullopt if the unsorted loop is as fast, or if an index is not one of the N rows.
std::optional<SortedEntries> sorted_entries(const ScatterCall& call);

// Runs the call in this order on all of torch's threads, with about as many entries for each.
void scatter_in_order(const ScatterCall& call, const ScatterOrder& order,
                      ScatterFunction* function);

}  // namespace cpuaccel::kernels
