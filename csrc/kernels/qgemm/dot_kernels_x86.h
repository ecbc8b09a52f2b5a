// The row of an x86 ISA: dot4's vectors D, tiles of kRows rows, and the form of packed rows.
#pragma once

#include "kernels/qgemm/dot_tile_x86.h"
#include "kernels/qgemm/kernels.h"
#include "kernels/qgemm/store_x86.h"

namespace cpuaccel::kernels {
namespace {

template <typename D, int kRows, int kRowOffset, int kRowElement>
constexpr QgemmKernels kDotKernels{.mr = kRows,
                                   .nr = kPanelColumns<D>,
                                   .run = 4,
                                   .rows = pack_rows<D>,
                                   .columns = pack_columns<D>,
                                   .tile = dot_tiles<D, kRows>,
                                   .store = store_results<D>,
                                   .row_offset = kRowOffset,
                                   .row_element = kRowElement};

}  // namespace
}  // namespace cpuaccel::kernels
