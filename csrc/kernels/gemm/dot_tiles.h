// The tiles of dot.h: how many rows of A, columns of B and sums of an element they have. Enough
// sums to hide the latency, few enough streams for L1, whose ways they share where their distance
// is a power of two.
#pragma once

namespace cpuaccel::kernels {
namespace {

// x86: twelve sums at most, of which two are begun and eight are under way in a cycle.
struct DotTiles4x3 {
  static constexpr int kRows = 4;
  template <int kOf>
  static constexpr int kColumns = kOf == 4 ? 3 : 4;
  template <int kOf>
  static constexpr int kSums = kOf == 1 ? 2 : 1;
};

// Arm: four are begun in a cycle and sixteen are under way, of three loads in a cycle.
struct DotTiles6x4 {
  static constexpr int kRows = 6;
  template <int kOf>
  static constexpr int kColumns = 4;
  template <int kOf>
  static constexpr int kSums = kOf <= 3 ? 2 : 1;
};

}  // namespace
}  // namespace cpuaccel::kernels
