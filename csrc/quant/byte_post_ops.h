// BytePostOps: the table lookup, add or mul fused behind a quantized layer, applied to its uint8
// result while that is in cache.
#pragma once

#include <cstdint>
#include <optional>

#include "base/api.h"
#include "kernels/binary/binary.h"

namespace cpuaccel::quant {

// Applied in this order, each step to the uint8 result of the one before, so that results equal
// those of torch's ops one after the other:
//   1  dst = table[dst]                                  if there is a table
//   2  dst = dst + other or dst * other, requantized     if there is a binary op
struct CPUACCEL_API BytePostOps {
  const uint8_t* table = nullptr;  // 256 entries
  // Whether table[i] is min(max(i, low), high), as for relu6: cheaper than a lookup.
  bool clamps = false;
  uint8_t low = 0, high = 255;
  std::optional<kernels::BinaryOp> binary;
  const uint8_t* other = nullptr;          // has dst's size and layout; not dst itself
  kernels::BinaryQuantizers quantizers{};  // a is dst, b is other; in range

  void set_table(const uint8_t* entries);
};

// Applies the steps one after the other to `count` bytes of dst, on all of torch's threads.
CPUACCEL_API void apply_byte_post_ops(const BytePostOps& byte_post_ops, uint8_t* dst,
                                      int64_t count);

}  // namespace cpuaccel::quant
