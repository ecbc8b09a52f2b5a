// Family concat: matrices of bytes side by side, each through a table if it has one.
//
//   dst[row] = part0[row] | part1[row] | ...,  each byte b as table[b] where a part has a table
//
// A part is [rows][columns], its rows `stride` bytes apart; dst is [rows][sum of columns] and
// dense. No overlap with dst. So a concatenation along any dimension of tensors in one memory
// order: rows are the dimensions before it, columns it and those after it. A table requantises on
// the way. Bound: 1 byte read and 1 written per element.
//
// No list of rows by ISA: the work is the family table's, or memcpy's.
#pragma once

#include <cstdint>
#include <span>

namespace cpuaccel::kernels {

struct ConcatPart {
  const uint8_t* src;
  int64_t columns;
  int64_t stride;
  const uint8_t* table;  // 256 entries, or null
};

// On all of torch's threads.
void concat_u8(std::span<const ConcatPart> parts, uint8_t* dst, int64_t rows);

}  // namespace cpuaccel::kernels
