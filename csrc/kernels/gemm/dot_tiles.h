// Tile sizes of dot.h: rows of A, columns of B, and sums per element. There are enough sums to hide
// the latency, and few enough streams for L1, whose ways they share if their distance is a power of
// two.
#pragma once

#include "kernels/gemm/kernels.h"

namespace cpuaccel::kernels {
namespace {

// x86: at most twelve sums; in a cycle two multiply-adds start and eight are in flight.
struct DotTiles4x3 {
  static constexpr int kRows = 4;
  // Measured on Zen 3, with B from L3 and from memory.
  static constexpr DotLimits kMost{48, 48};
  template <int kOf>
  static constexpr int kColumns = kOf == 4 ? 3 : 4;
  template <int kOf>
  static constexpr int kSums = kOf == 1 ? 2 : 1;
  // Sums per element if columns are computed one after the other; 0: they are not.
  static constexpr int kInTurn = 8;
};

// Arm: in a cycle four multiply-adds start and sixteen are in flight, with three loads.
struct DotTiles6x4 {
  static constexpr int kRows = 6;
  // By llvm-mca for Neoverse V1: with floats, dot is as fast as tile. 16-bit elements are widened
  // for every six rows, which leaves 11 of 16 multiply-adds a cycle; packing an element into a
  // panel costs a third of a cycle.
  static constexpr DotLimits kMost{48, 12};
  template <int kOf>
  static constexpr int kColumns = 4;
  template <int kOf>
  static constexpr int kSums = kOf <= 3 ? 2 : 1;
  static constexpr int kInTurn = 0;
};

}  // namespace
}  // namespace cpuaccel::kernels
