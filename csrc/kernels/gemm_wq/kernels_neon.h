// The functions of a row of gemm_wq's list on Arm. Included by ISA sources.
#pragma once

#include <array>
#include <cstdint>

#include "kernels/gemm_wq/tile_neon.h"
#include "kernels/gemm_wq/unpack_neon.h"

namespace cpuaccel::kernels {
namespace {

template <int64_t kByteRows = 0, QgemmWqFunction* kByBytes = nullptr>
constexpr GemmWqKernels kGemmWq{.places4 = {1.0f, 1.0f, 1.0f, 1.0f},
                                .places8 = {1.0f, 1.0f, 1.0f, 1.0f},
                                .tile = tile,
                                .unpack = unpack,
                                .byte_rows = kByteRows,
                                .by_bytes = kByBytes};

}  // namespace
}  // namespace cpuaccel::kernels
