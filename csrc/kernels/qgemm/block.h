// Packed weights of family qgemm in one block of memory, such as a tensor:
//
//   header       QgemmHeader
//   column sums  int32 for each column of whole panels, and zeros up to a multiple of 64 bytes
//   values       int8, the layout of QgemmWeights
//
// Only CPUs that may use the row that packed a block can multiply by it; all can unpack it. Numbers
// are little-endian.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "base/api.h"
#include "kernels/qgemm/qgemm.h"

namespace cpuaccel::kernels {

struct QgemmHeader {
  char magic[8];     // "cpuacQg" and a zero
  uint32_t version;  // 1
  uint16_t nr, run;
  char row[24];  // its name in the kernel list, and zeros
  int64_t N, K, magnitude;
};
static_assert(sizeof(QgemmHeader) == 64 && std::is_trivially_copyable_v<QgemmHeader>);

// Bytes of a block that the best usable row packs.
CPUACCEL_API int64_t qgemm_block_bytes(int64_t K, int64_t N);

// Packs a block by that row.
CPUACCEL_API void qgemm_pack_block(const QgemmPlain& plain, std::byte* block);

// The weights in a block of `bytes` bytes, which outlives the result. Their row is null if this CPU
// may not use the one that packed the block, or if the block is not aligned to 64 bytes. Throws
// std::invalid_argument with the reason if the memory is no such block.
CPUACCEL_API QgemmWeights qgemm_weights_in(const std::byte* block, int64_t bytes);

}  // namespace cpuaccel::kernels
