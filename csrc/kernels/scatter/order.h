// Entries of a scatter sorted by the row that they go to. Rows of a kilobyte and more that pass
// through registers in the order of the index are read and written for each entry, from a cache
// that is far once dst is large; sorted, each is read and written once.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "kernels/scatter/scatter.h"

namespace cpuaccel::kernels {

// Owns what its order points into.
struct SortedEntries {
  std::vector<int32_t> begins, entries;

  ScatterOrder order() const { return {.begins = begins.data(), .entries = entries.data()}; }
};

// Nothing where the plain loop is as fast, or where a number of the index is none of the N rows.
std::optional<SortedEntries> sorted_entries(const ScatterCall& call);

// dst of a call that has an order, on all of torch's threads, as many entries to each.
void scatter_in_order(const ScatterCall& call, ScatterFunction* function);

}  // namespace cpuaccel::kernels
