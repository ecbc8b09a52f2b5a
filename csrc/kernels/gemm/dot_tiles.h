// The tiles of dot.h: how many rows of A, columns of B and sums of an element they have. Enough
// sums to hide the latency, few enough streams for L1, whose ways they share where their distance
// is a power of two.
#pragma once

#include "kernels/gemm/kernels.h"

namespace cpuaccel::kernels {
namespace {

// x86: twelve sums at most, of which two are begun and eight are under way in a cycle.
struct DotTiles4x3 {
  static constexpr int kRows = 4;
  // Measured on Zen 3, with B from L3 and from memory.
  static constexpr DotLimits kMost{48, 48};
  template <int kOf>
  static constexpr int kColumns = kOf == 4 ? 3 : 4;
  template <int kOf>
  static constexpr int kSums = kOf == 1 ? 2 : 1;
  // Sums of an element where columns are taken one after the other; 0: they are not.
  static constexpr int kInTurn = 8;
};

// Arm: four are begun in a cycle and sixteen are under way, of three loads in a cycle.
struct DotTiles6x4 {
  static constexpr int kRows = 6;
  // By llvm-mca for Neoverse V1: floats run as fast as tiles do. Halves are widened for every six
  // rows, to 11 of 16 multiply-adds a cycle; an element of a panel costs a third of a cycle.
  static constexpr DotLimits kMost{48, 12};
  template <int kOf>
  static constexpr int kColumns = 4;
  template <int kOf>
  static constexpr int kSums = kOf <= 3 ? 2 : 1;
  static constexpr int kInTurn = 0;
};

}  // namespace
}  // namespace cpuaccel::kernels
