// Builds a row of gemm's kernel list (GemmKernels) from a vector class and its element types.
// Included by ISA sources only.
#pragma once

#include "kernels/gemm/dot.h"
#include "kernels/gemm/kernels.h"
#include "kernels/gemm/pixels.h"
#include "kernels/gemm/rows.h"
#include "kernels/gemm/tile.h"

namespace cpuaccel::kernels {
namespace {

template <typename V, typename Elements>
constexpr GemmKernels kGemmKernels{
    .mr = V::kRows,
    .nr = V::kVectors * V::kLanes,
    .dot_rows = V::DotTiles::kRows,
    .dot_most = V::DotTiles::kMost,
    .tile = tiles<V>,
    .dot = dots<V>,
    .rows = rows_times<V>,
    .load = load_block<Elements>,
    .panels = load_panel_block<Elements>,
    .store = store_run<Elements>,
    .pixels = pixels<V>,
    .packed_kc = V::kPackedKc,
};

}  // namespace
}  // namespace cpuaccel::kernels
