#include <algorithm>
#include <cstring>
#include <limits>

#include "base/huge_page_block.h"
#include "base/parallel.h"
#include "kernels/gemm/pieces.h"
#include "kernels/qgemm/kernels.h"
#include "kernels/qgemm/qgemm.h"
#include "kernels/round_up.h"
#include "kernels/transpose/transpose.h"

namespace cpuaccel::kernels {
namespace {

// Bytes of weights.
constexpr int64_t kGrain = 64 * 1024;

constexpr int64_t kLargest = 255 * 128;  // largest product

// Offset of weight (k, column) in a panel.
int64_t at(const QgemmWeights& weights, int64_t k, int64_t column) {
  const int64_t in_run = k % weights.run;
  return (k - in_run) * weights.nr + column * weights.run + in_run;
}

// Columns [n, n + count) as lines of K contiguous bytes: in place, or copied.
QgemmLines columns(const QgemmPlain& plain, int64_t n, int64_t count) {
  QgemmLines lines;
  lines.count = count;
  lines.K = plain.K;
  const int8_t* src = plain.data + n * plain.n_stride;
  if (plain.k_stride == 1 || plain.K == 0) {
    lines.src = reinterpret_cast<const uint8_t*>(src);
    lines.stride = plain.n_stride;
    return lines;
  }
  auto* copy =
      static_cast<uint8_t*>(scratch(ScratchSlot::gemm_b, static_cast<size_t>(count * plain.K)));
  lines.src = copy;
  lines.stride = plain.K;
  if (plain.n_stride == 1 && plain.k_stride >= 0) {
    const Transpose shape{
        .M = plain.K, .src_stride = plain.k_stride, .K = count, .dst_stride = plain.K};
    first_usable(transpose_kernels()).function(shape, reinterpret_cast<const uint8_t*>(src), copy);
    return lines;
  }
  for (int64_t column = 0; column < count; ++column) {
    for (int64_t k = 0; k < plain.K; ++k) {
      copy[column * plain.K + k] =
          static_cast<uint8_t>(src[column * plain.n_stride + k * plain.k_stride]);
    }
  }
  return lines;
}

int64_t largest_sum(const QgemmWeights& weights) {
  int64_t most = 0;
  for (int64_t n = 0; n < weights.N; ++n) {
    int64_t sum = 0;
    for (int64_t k = 0; k < weights.K; ++k) {
      sum += std::abs(int64_t{weights.panel(n / weights.nr)[at(weights, k, n % weights.nr)]});
    }
    most = std::max(most, sum);
  }
  return most;
}

// A packed row of ones: its products are the column sums.
AlignedBlock row_of_ones(const QgemmWeights& weights) {
  const QgemmKernels& kernels = weights.row();
  const int64_t K = weights.padded_k();
  const AlignedBlock ones = aligned_block(static_cast<size_t>(K));
  std::memset(ones.get(), 1, static_cast<size_t>(K));
  AlignedBlock tile = aligned_block(static_cast<size_t>(K * kernels.mr * kernels.row_element));
  QgemmLines lines;
  lines.src = reinterpret_cast<const uint8_t*>(ones.get());
  lines.count = 1;
  lines.K = K;
  lines.dst = reinterpret_cast<int8_t*>(tile.get());
  kernels.rows(lines);
  return tile;
}

}  // namespace

int64_t qgemm_packed_bytes(int64_t K, int64_t N, QgemmFunction* row) {
  const QgemmKernels& kernels = row();
  return round_up(N, kernels.nr) *
         (round_up(K, kernels.run) + static_cast<int64_t>(sizeof(int32_t)));
}

QgemmWeights qgemm_pack_into(const QgemmPlain& plain, QgemmFunction* row, int8_t* values,
                             int32_t* column_sums) {
  const QgemmKernels& kernels = row();
  QgemmWeights packed;
  packed.row = row;
  packed.nr = kernels.nr;
  packed.run = kernels.run;
  packed.K = plain.K;
  packed.N = plain.N;
  packed.values = values;
  packed.column_sums = column_sums;
  packed.bytes = qgemm_packed_bytes(plain.K, plain.N, row);
  const AlignedBlock ones = row_of_ones(packed);
  const int64_t grain = kGrain / (kernels.nr * (plain.K + 1)) + 1;
  for_each_piece(packed.panels(), grain, [&](int64_t panel) {
    const int64_t n = panel * kernels.nr;
    QgemmLines lines = columns(plain, n, std::min(kernels.nr, plain.N - n));
    lines.dst = values + panel * kernels.nr * packed.padded_k();
    kernels.columns(lines);
    QgemmTile tile;
    tile.rows = reinterpret_cast<const int8_t*>(ones.get());
    tile.panel = lines.dst;
    tile.runs = qgemm_runs(kernels, plain.K);
    tile.m = 1;
    tile.n = kernels.nr;
    tile.sums = column_sums + n;
    kernels.tile(tile);
  });
  // Scanning the weights is skipped if all weights fit: packing for a single call must be fast.
  const bool all_fit = plain.K <= std::numeric_limits<int32_t>::max() / kLargest;
  packed.magnitude = all_fit ? kLargest * plain.K : 255 * largest_sum(packed);
  return packed;
}

QgemmWeights qgemm_pack(const QgemmPlain& plain, QgemmFunction* row) {
  const QgemmKernels& kernels = row();
  const int64_t columns = round_up(plain.N, kernels.nr);
  AlignedBlock sums = aligned_block(static_cast<size_t>(columns) * sizeof(int32_t));
  AlignedBlock values =
      huge_page_block(static_cast<size_t>(columns * round_up(plain.K, kernels.run)));
  QgemmWeights packed = qgemm_pack_into(plain, row, reinterpret_cast<int8_t*>(values.get()),
                                        reinterpret_cast<int32_t*>(sums.get()));
  packed.owned_values = std::move(values);
  packed.owned_sums = std::move(sums);
  return packed;
}

QgemmWeights qgemm_pack(const QgemmPlain& plain) {
  return qgemm_pack(plain, first_usable(qgemm_kernels()).function);
}

void qgemm_unpack(const QgemmWeights& packed, int8_t* weights, int64_t k_stride, int64_t n_stride) {
  const int64_t grain = kGrain / (packed.K + 1) + 1;
  for_each_piece(packed.N, grain, [&](int64_t n) {
    const int8_t* from = packed.panel(n / packed.nr) + n % packed.nr * packed.run;
    int8_t* to = weights + n * n_stride;
    for (int64_t k = 0; k < packed.K; k += packed.run, from += packed.nr * packed.run) {
      const int64_t count = std::min(packed.run, packed.K - k);
      for (int64_t i = 0; i < count; ++i, to += k_stride) {
        *to = from[i];
      }
    }
  });
}

}  // namespace cpuaccel::kernels
