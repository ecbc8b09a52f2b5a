// Family segment: segment reductions (segment_csr, global pooling) of consecutive rows.
//
//   sum         dst[n,k] = start + sum of src[e,k]   over e in [offsets[n], offsets[n+1])
//   mean        that sum divided by the number of e
//   amax, amin  the largest (smallest) of start and src[e,k]; NaN wins over any number
//
// src E x K, dst N x K. A segment without entries gives `empty`. The error of a sum of n terms is
// at most n * eps times the sum of their absolute values.
// Segments of more than some thousand entries are split into parts, which are combined in order.
// The split depends only on offsets and K: results are the same bits for any number of threads.
// Bound: src read once, from memory.
#pragma once

#include <cstdint>
#include <span>

#include "base/api.h"
#include "kernels/csr/csr.h"
#include "kernels/kernel_list.h"
#include "kernels/reduce.h"

namespace cpuaccel::kernels {

struct SegmentCall {
  int64_t E = 0, N = 0, K = 0;
  const int64_t* offsets = nullptr;  // N + 1, from 0 to E
  DataType type = DataType::f32;     // f32 or f64
  Reduce reduce = Reduce::sum;
  double start = 0, empty = 0;
  const void* src = nullptr;
  int64_t src_stride = 0;  // elements from row to row
  void* dst = nullptr;     // dense
};

// A piece of work: whole segments, or a part of one segment.
struct SegmentWork {
  int64_t row = 0, rows = 0;
  // If partial is not null: the K results of entries [begin, end) go there, without start and not
  // divided.
  int64_t begin = 0, end = 0;
  void* partial = nullptr;  // of the call's type
};

using SegmentFunction = void(const SegmentCall& call, const SegmentWork& work);

#define CPUACCEL_KERNEL(name) SegmentFunction segment_##name;
#include "kernels/segment/kernels.inc"
#undef CPUACCEL_KERNEL

std::span<const KernelRow<SegmentFunction>> segment_kernels();

// Runs on all of torch's threads. Returns false and writes nothing if offsets do not ascend from 0
// to E. dst must not overlap src.
CPUACCEL_API bool segment(const SegmentCall& call, SegmentFunction* function);
// Runs the best usable row, or scalar loops for up to three columns.
CPUACCEL_API bool segment(const SegmentCall& call);

}  // namespace cpuaccel::kernels
