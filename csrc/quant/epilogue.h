// What follows a layer's result on the result itself, before it leaves the cache.
#pragma once

#include <cstdint>

namespace cpuaccel::quant {

enum class Binary : uint8_t { none, add, mul };

// A quantised tensor's values: real = scale * (value - zero_point).
struct Quantizer {
  float scale = 1.0f;
  int32_t zero_point = 0;
};

// In this order, each step on the uint8 result of the one before, so that the numbers are those of
// torch's ops one after the other:
//   1  dst = table[dst]                                              if there is a table
//   2  dst = clamp(round(real / result.scale) + result.zero_point, 0, 255)
//      real = a + b or a * b, not below 0 if relu; a = real value of dst, by `own`, b = of other
struct Epilogue {
  const uint8_t* table = nullptr;  // 256 entries
  Binary binary = Binary::none;
  bool relu = false;
  const uint8_t* other = nullptr;  // of dst's size and layout, and not dst
  Quantizer own, other_quantizer, result;
};

// Step by step over `count` bytes of dst, on all of torch's threads.
void apply_epilogue(const Epilogue& epilogue, uint8_t* dst, int64_t count);

}  // namespace cpuaccel::quant
