// Family scatter: scatter_add and related reductions of rows by an index.
//
//   sum         dst[index[e], k] += src[e, k]   for e = 0, 1, ..., E - 1
//   product     dst[index[e], k] *= src[e, k]
//   amax, amin  dst[index[e], k] = the larger (smaller) of itself and src[e, k]; itself if they are
//               equal; NaN wins over any number
//   ties        dst[index[e], k] += src[e, k] == value[index[e], k] ? 1 : 0, for NaN nan_ties
//
// src E x K, dst and value N x K. dst and value are float if src is bf16 or f16, so that the caller
// rounds sums once. Each number of dst gets its terms in the order of e: results are the same bits
// for any number of threads and for the reference kernel.
// Bound: src and index read once from memory; for each e a row of dst read and written in the cache
// that dst fits. For long rows the entries are sorted first (order.h), and dst is read and written
// once.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "base/api.h"
#include "kernels/csr/csr.h"
#include "kernels/kernel_list.h"

namespace cpuaccel::kernels {

// Not Reduce: sum and mean are one op here, because a division of the sums comes last
// (ScatterOrder), and there are two more ops.
enum class ScatterOp : uint8_t { sum, product, amax, amin, ties };

// Entries sorted by dst row: row n gets the entries entries[i], i in [begins[n], begins[n + 1]), in
// ascending order.
struct ScatterOrder {
  const int32_t *begins = nullptr, *entries = nullptr;  // N + 1, E
  // Used by scatter_reduce, for rows with entries. Unless include_dst, they start at `start`
  // instead of at dst. For `mean`, sums are divided by the number of terms, including dst's if it
  // is included.
  bool include_dst = true, mean = false;
  double start = 0;
};

struct ScatterCall {
  ScatterOp op = ScatterOp::sum;
  int64_t E = 0, N = 0, K = 0;
  const void* index = nullptr;    // E
  bool wide = true;               // index is int64, else int32
  DataType type = DataType::f32;  // type of src; f32 or f64 for ties
  const void* src = nullptr;
  int64_t src_stride = 0;  // elements from row to row
  void* dst = nullptr;
  int64_t dst_stride = 0;
  const void* value = nullptr;          // for ties; has dst's stride
  int nan_ties = 0;                     // what a NaN in src counts as, 0 or 1
  const ScatterOrder* order = nullptr;  // read instead of index; parts then have all columns

  template <typename Index>
  const Index* index_as() const {
    return static_cast<const Index*>(index);
  }
  int64_t dst_size() const { return type == DataType::f64 ? 8 : 4; }  // bytes of a number of dst
};

// The part of dst that one thread owns: rows [row, row + rows), columns [k, k + columns).
struct ScatterWork {
  int64_t row = 0, rows = 0;
  int64_t k = 0, columns = 0;
};

// Processes the entries of this part; indices that are not one of the N rows are skipped.
using ScatterFunction = void(const ScatterCall& call, const ScatterWork& work);

#define CPUACCEL_KERNEL(name) ScatterFunction scatter_##name;
#include "kernels/scatter/kernels.inc"
#undef CPUACCEL_KERNEL

std::span<const KernelRow<ScatterFunction>> scatter_kernels();

// Runs on all of torch's threads. Indices that are not one of the N rows are skipped. dst must not
// overlap src or index.
CPUACCEL_API void scatter(const ScatterCall& call, ScatterFunction* function);
CPUACCEL_API void scatter(const ScatterCall& call);  // runs the best usable row

// Threads that the work of a call is worth, 1 to those that there are.
int64_t scatter_threads(const ScatterCall& call);

// Divides dst among threads as scatter does, and calls body(part) for each part on the thread that
// owns it.
void for_each_scatter_part(const ScatterCall& call,
                           const std::function<void(const ScatterWork& part)>& body);

// Whether all `count` indices are in [low, high), for low <= 0 <= high.
CPUACCEL_API bool index_within(const void* index, bool wide, int64_t count, int64_t low,
                               int64_t high);

}  // namespace cpuaccel::kernels
