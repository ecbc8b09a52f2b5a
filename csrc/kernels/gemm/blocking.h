// Sizes of blocks, in elements. Functions of the shape alone: sums must not depend on threads.
#pragma once

#include <cstdint>
#include <cstdlib>

#include "kernels/gemm/types.h"

namespace cpuaccel::kernels {

constexpr int64_t divide_up(int64_t value, int64_t by) {
  // Not (value + by - 1) / by, which may overflow.
  return value / by + (value % by != 0 ? 1 : 0);
}
constexpr int64_t round_up(int64_t value, int64_t multiple) {
  return divide_up(value, multiple) * multiple;
}
constexpr int64_t at_most(int64_t value, int64_t limit) { return value < limit ? value : limit; }

// `total` in as few parts as no part is above `largest`, equal but for rounding up to `multiple`.
constexpr int64_t even_part(int64_t total, int64_t largest, int64_t multiple) {
  const int64_t parts = divide_up(total, largest);
  return round_up(divide_up(total, parts), multiple);
}

struct GemmBlocking {
  int64_t kc;       // rows of a panel: 16 KiB of it stay in L1 while the rows of A pass by
  int64_t mc;       // rows of A: mc * kc floats stay in L2 while the panels pass by
  int64_t nc;       // columns of B that are packed at a time, all K of them: 8 MiB
  int64_t ko;       // rows of B that are packed at a time: K but for K in the hundred thousands
  int64_t columns;  // of a piece of work: what a block of A is read for
};

constexpr int64_t kPackedFloats = (8 << 20) / 4;

inline int64_t g_tune[16] = {256, 16, 512, 0, 1, 48, 1, 512};  // KC MC COLS COPYA PF
inline GemmBlocking gemm_blocking(int64_t M, int64_t N, int64_t K, int64_t mr, int64_t nr) {
  GemmBlocking blocking{};
  blocking.kc = even_part(K, g_tune[0], 4);
  blocking.mc = even_part(M, g_tune[1] * mr, mr);
  const int64_t most = kPackedFloats / nr / blocking.kc * blocking.kc;
  blocking.ko = at_most(round_up(K, blocking.kc), most);
  blocking.nc = even_part(N, kPackedFloats / blocking.ko / nr * nr, nr);
  blocking.columns = even_part(blocking.nc, g_tune[2], nr);
  return blocking;
}

}  // namespace cpuaccel::kernels
