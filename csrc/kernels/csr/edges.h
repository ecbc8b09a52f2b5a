// An edge list (edge_index) converted to CSR, by a stable counting sort by destination. The result
// does not depend on the number of threads.
//
//   row m of the matrix has the edges perm[i], i in [crow[m], crow[m+1]), all of which end in m,
//   and col[i] = src[perm[i]]; perm ascends within a row
//
// Bound: both ends are read twice, and 2 indices an edge are written in random order.
#pragma once

#include <cstdint>

#include "base/api.h"

namespace cpuaccel::kernels {

struct EdgeList {
  int64_t E = 0, M = 0, N = 0;  // edges from the N sources to the M destinations
  const void* src = nullptr;    // E
  const void* dst = nullptr;    // E
  bool wide = true;             // both are int64, otherwise int32
};

struct EdgeRows {
  void* crow = nullptr;  // M + 1
  void* col = nullptr;   // E
  void* perm = nullptr;  // E
  bool wide = true;      // all three are int64, otherwise int32: then M, N and E must fit
};

enum class EdgeFault : uint8_t { none, src, dst };  // an end that is not a node

// Reads and checks every index. After a fault the output is undefined.
CPUACCEL_API EdgeFault edge_rows(const EdgeList& edges, const EdgeRows& rows);

}  // namespace cpuaccel::kernels
