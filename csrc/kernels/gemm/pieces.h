#pragma once

#include <cstdint>

#include "base/parallel.h"

namespace cpuaccel::kernels {

// Parallel loop over pieces of work: calls body(piece) for each, with at least `grain` per thread.
template <typename Body>
void for_each_piece(int64_t pieces, int64_t grain, const Body& body) {
  parallel_for(0, pieces, grain, [&](int64_t begin, int64_t end) {
    for (int64_t piece = begin; piece < end; ++piece) {
      body(piece);
    }
  });
}

}  // namespace cpuaccel::kernels
