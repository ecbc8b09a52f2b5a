// WqHeader: the 64 bytes before the panels of weights.h, when packed weights are a tensor or part
// of a file. All numbers are little-endian.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "base/api.h"
#include "kernels/gemm_wq/weights.h"

namespace cpuaccel::kernels {

struct WqHeader {
  char magic[8];     // "cpuacWq" and a zero
  uint32_t version;  // kWqVersion
  uint8_t bits;      // 4 or 8
  uint8_t scales;    // 0 f32, 1 bf16, 2 f16
  uint8_t zeros;     // 0 none, 1 integers, 2 reals
  uint8_t unused;    // 0
  int64_t N, K, group;
  uint8_t reserved[24];  // zeros
};
static_assert(sizeof(WqHeader) == 64 && std::is_trivially_copyable_v<WqHeader>);

// `scales` of the format is f32, bf16 or f16.
CPUACCEL_API WqHeader wq_header(const WqFormat& format, int64_t N, int64_t K);

// The weights in `bytes` bytes at `data`, a header and its panels, which outlive the result. Throws
// std::invalid_argument with the reason if they are anything else.
CPUACCEL_API WqWeights weights_behind_header(std::byte* data, int64_t bytes);

}  // namespace cpuaccel::kernels
