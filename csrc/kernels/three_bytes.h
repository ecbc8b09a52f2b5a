// A row of floats as three rows of bytes, which instructions for integers multiply.
//
//   src[k] = step * (65536 * high[k] + 256 * middle[k] + low[k])
//
// with step = max |src| / 8355709, so that `high` is at most 127. Error: half a step.
#pragma once

#include <cstdint>
#include <optional>

namespace cpuaccel::kernels {

inline constexpr int64_t kThreeBytes = 3;

// bytes: K of high, K of middle and K of low, in two's complement. Returns the step; nothing, with
// nothing written, if the row holds a NaN or an infinity, or is so small that its step is no normal
// number.
std::optional<float> three_bytes(const float* src, int64_t K, uint8_t* bytes);

}  // namespace cpuaccel::kernels
