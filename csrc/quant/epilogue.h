// What follows a layer's result on the result itself, before it leaves the cache.
#pragma once

#include <cstdint>

#include "kernels/binary/binary.h"

namespace cpuaccel::quant {

enum class Binary : uint8_t { none, add, mul };

// In this order, each step on the uint8 result of the one before, so that the numbers are those of
// torch's ops one after the other:
//   1  dst = table[dst]                                  if there is a table
//   2  dst = dst + other or dst * other, requantised     if there is a binary op
struct Epilogue {
  const uint8_t* table = nullptr;  // 256 entries
  // True if table[i] is min(max(i, low), high), as for relu6: cheaper than a look-up.
  bool clamps = false;
  uint8_t low = 0, high = 255;
  Binary binary = Binary::none;
  const uint8_t* other = nullptr;          // of dst's size and layout, and not dst
  kernels::BinaryQuantizers quantizers{};  // a is dst, b is other; in range

  void set_table(const uint8_t* entries);
};

// Step by step over `count` bytes of dst, on all of torch's threads.
void apply_epilogue(const Epilogue& epilogue, uint8_t* dst, int64_t count);

}  // namespace cpuaccel::quant
