// Which of a node's neighbours are sampled.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/sample/random.h"

namespace cpuaccel::kernels {

// picks[0..count) of 0, 1, ..., degree - 1: each set of them as likely as any other, each number
// once. 0 <= count <= degree. `taken` is memory to work in.
void choose_some(RandomStream random, int64_t degree, int64_t count, int64_t* picks,
                 std::vector<uint64_t>& taken);

// The same, each of `count` draws from all. degree > 0.
void choose_any(RandomStream random, int64_t degree, int64_t count, int64_t* picks);

}  // namespace cpuaccel::kernels
