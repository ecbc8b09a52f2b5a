// Family concat: concatenation of uint8 matrices, with optional requantization by a table.
//
//   dst[row] = part0[row] | part1[row] | ...,  each byte b as table[b] if its part has a table
//
// A part is [rows][columns] with rows `stride` bytes apart; dst is [rows][sum of columns] and
// dense. Parts must not overlap dst. Concatenates along any dimension of tensors with the same
// memory format: rows are the dimensions before it, columns that dimension and those after it.
// Bound: 1 byte read and 1 written per element.
//
// The family has no kernel list: family table or memcpy does the work.
#pragma once

#include <cstdint>
#include <span>

#include "base/api.h"

namespace cpuaccel::kernels {

struct ConcatPart {
  const uint8_t* src;
  int64_t columns;
  int64_t stride;
  const uint8_t* table;  // 256 entries, or null
};

// Uses all of torch's threads.
CPUACCEL_API void concat_u8(std::span<const ConcatPart> parts, uint8_t* dst, int64_t rows);

}  // namespace cpuaccel::kernels
