// Family transpose: transposes batches of byte matrices.
//
//   dst[b*dst_batch + k*dst_stride + m] = src[b*src_batch + m*src_stride + k]
//
// for b < B, m < M, k < K; strides are in bytes and not negative. The bytes of dst are distinct,
// and dst does not overlap src. NHWC to NCHW is M = H*W, K = C, and NCHW to NHWC the reverse; a
// channel shuffle is B = N*H*W, M = groups, K = C / groups.
// Bound: 1 byte read and 1 written per element.
#pragma once

#include <cstdint>
#include <span>

#include "base/api.h"
#include "kernels/kernel_list.h"

namespace cpuaccel::kernels {

struct Transpose {
  int64_t B = 1, src_batch = 0, dst_batch = 0;
  int64_t M = 0, src_stride = 0;
  int64_t K = 0, dst_stride = 0;
};

using TransposeFunction = void(const Transpose& shape, const uint8_t* src, uint8_t* dst);

#define CPUACCEL_KERNEL(name) TransposeFunction transpose_##name;
#include "kernels/transpose/kernels.inc"
#undef CPUACCEL_KERNEL

std::span<const KernelRow<TransposeFunction>> transpose_kernels();

// Runs the best usable row on all of torch's threads.
CPUACCEL_API void transpose_bytes(const Transpose& shape, const uint8_t* src, uint8_t* dst);

}  // namespace cpuaccel::kernels
