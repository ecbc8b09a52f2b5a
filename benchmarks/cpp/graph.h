// Random graphs to run kernels on, the same in every run.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/csr/csr.h"

namespace cpuaccel::bench {

// R-MAT (0.57, 0.19, 0.19, 0.05) over 2^scale nodes with randomly permuted ids: few nodes have most
// of the edges, and neighbors lie anywhere in memory. Edges may repeat.
class Graph {
 public:
  Graph(int scale, int64_t edges);
  kernels::Csr csr() const;

 private:
  std::vector<int64_t> crow_;
  std::vector<int64_t> col_;
};

}  // namespace cpuaccel::bench
