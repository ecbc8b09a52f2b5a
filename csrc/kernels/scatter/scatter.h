// Family scatter: rows added to the rows that an index names, or compared with them.
//
//   sum         dst[index[e], k] += src[e, k]   for e = 0, 1, ..., E - 1
//   product     dst[index[e], k] *= src[e, k]
//   amax, amin  dst[index[e], k] = the larger (smaller) of itself and src[e, k]; of equal ones
//               itself; NaN wins over any number
//   ties        dst[index[e], k] += src[e, k] == value[index[e], k] ? 1 : 0, for NaN nan_ties
//
// src E x K, dst and value N x K; dst and value are float where src is bf16 or f16, so that sums
// are rounded once, by the caller. Each number of dst gets its terms one after the other, in the
// order of e: the same bits on any number of threads, and those of the plain loop.
// Bound: src and index read once, from memory; for each e a row of dst read and written, in the
// cache that dst fits. Of long rows the entries are sorted first (order.h), and dst is read and
// written once.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "kernels/csr/csr.h"
#include "kernels/kernel_list.h"

namespace cpuaccel::kernels {

enum class ScatterOp : uint8_t { sum, product, amax, amin, ties };

// Entries sorted by the row that they go to: row n gets the entries entries[i], i in [begins[n],
// begins[n + 1]), which ascend.
struct ScatterOrder {
  const int32_t *begins = nullptr, *entries = nullptr;  // N + 1, E
  // What scatter_reduce adds to scatter, for rows that have entries: they start at `start`, not at
  // what dst has, and sums are divided by the number of terms, dst's own too if it is one.
  bool include_dst = true, mean = false;
  double start = 0;
};

struct ScatterCall {
  ScatterOp op = ScatterOp::sum;
  int64_t E = 0, N = 0, K = 0;
  const void* index = nullptr;      // E
  bool wide = true;                 // index is int64, else int32
  GraphType type = GraphType::f32;  // of src; f32 or f64 for ties
  const void* src = nullptr;
  int64_t src_stride = 0;  // elements from row to row
  void* dst = nullptr;
  int64_t dst_stride = 0;
  const void* value = nullptr;  // for ties; its rows are as far apart as those of dst
  int nan_ties = 0;             // what a NaN in src counts for, 0 or 1
  const ScatterOrder* order =
      nullptr;  // read in the place of index, by parts that have all columns

  template <typename Index>
  const Index* index_as() const {
    return static_cast<const Index*>(index);
  }
};

// A part of dst that one thread owns: rows [row, row + rows), columns [k, k + columns).
struct ScatterWork {
  int64_t row = 0, rows = 0;
  int64_t k = 0, columns = 0;
};

// Takes what belongs to the part; numbers that are not of the N rows are passed over.
using ScatterFunction = void(const ScatterCall& call, const ScatterWork& work);

#if defined(__x86_64__)
#define CPUACCEL_SCATTER_KERNELS(row) \
  row(x86_avx512, Isa::avx512) row(x86_avx2, Isa::avx2) row(ref, Isa::ref)
#elif defined(__aarch64__)
#define CPUACCEL_SCATTER_KERNELS(row) \
  row(arm64_sve256, Isa::sve256) row(arm64_neon, Isa::neon) row(ref, Isa::ref)
#else
#define CPUACCEL_SCATTER_KERNELS(row) row(ref, Isa::ref)
#endif

#define CPUACCEL_DECLARE(name, isa) ScatterFunction scatter_##name;
CPUACCEL_SCATTER_KERNELS(CPUACCEL_DECLARE)
#undef CPUACCEL_DECLARE

std::span<const KernelRow<ScatterFunction>> scatter_kernels();

// All of it on all of torch's threads. Numbers that are none of the N rows are passed over. dst
// must not overlap src or index.
void scatter(const ScatterCall& call, ScatterFunction* function);
void scatter(const ScatterCall& call);  // by the best usable row

// Shares dst out among threads as scatter does: body(part), for each part on the thread that owns
// it.
void for_each_scatter_part(const ScatterCall& call,
                           const std::function<void(const ScatterWork& part)>& body);

// Whether each of `count` numbers is in [low, high), of low <= 0 <= high.
bool index_within(const void* index, bool wide, int64_t count, int64_t low, int64_t high);

}  // namespace cpuaccel::kernels
