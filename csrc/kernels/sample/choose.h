// Random choice of the neighbors of a node, with and without replacement.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/sample/random.h"

namespace cpuaccel::kernels {

// Chooses picks[0..count) from 0, 1, ..., degree - 1 without replacement; each set is equally
// likely. 0 <= count <= degree. `taken` is working memory.
void choose_some(RandomStream random, int64_t degree, int64_t count, int64_t* picks,
                 std::vector<uint64_t>& taken);

// The same with replacement: `count` independent draws. degree > 0.
void choose_any(RandomStream random, int64_t degree, int64_t count, int64_t* picks);

}  // namespace cpuaccel::kernels
