// Tiles of dwconv: which results share interleaved taps, and how many of them fit the L1 cache.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/dwconv/dwconv.h"

namespace cpuaccel::kernels {

struct DwconvTile {
  int64_t rows = 1;     // of results in a group
  int64_t quads = 1;    // of source rows that the group reads
  int64_t outputs = 1;  // columns of results in a tile
  int64_t columns = 1;  // of the source, for these results
  int64_t tap_bytes = 0, weight_bytes = 0;
};

// True if neighboring rows of results share all but one of their source rows.
bool dwconv_pairs_rows(const DwconvShape& shape);

// tap_vector: bytes of one vector of interleaved taps.
DwconvTile dwconv_tile(const DwconvCall& call, int64_t rows, int64_t tap_vector);

// Bytes of a row of padding as long as a source row, rounded up to whole cache lines.
size_t dwconv_padding_bytes(const DwconvCall& call);

}  // namespace cpuaccel::kernels
