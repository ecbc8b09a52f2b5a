#include "kernels/gemm/skinny.h"

#include <algorithm>

#include "base/parallel.h"
#include "kernels/gemm/blocking.h"
#include "kernels/gemm/edges.h"
#include "kernels/gemm/pieces.h"

namespace cpuaccel::kernels {
namespace {

// Vectors of the large operand that meet all of the small one together. Tiles are 3 or 4 wide.
constexpr int64_t kDotBlock = 12;
// Elements of k at a time: 12 or 16 KiB of a tile in L1. Sums across a register's lanes cost as
// much as 10 % of this.
constexpr int64_t kDotK = 1024;

struct DotSizes {
  int64_t kc, block;
};

DotSizes dot_sizes(int64_t rows, int64_t vectors, int64_t K, const GemmKernels& kernels) {
  // With a single tile of rows, nothing of the large operand is read twice.
  const int64_t kc = rows <= kernels.dot_rows ? K : even_part(K, kDotK, 16);
  // Short vectors are taken more at a time, because a block has a fixed cost. So are vectors that
  // meet one row only, which takes no longer than reading them.
  constexpr int64_t kMostBlocks = 20, kPieces = 16;
  const int64_t least = at_least(kDotK / kc, 1);
  // Each thread gets two pieces at least. Tiles stay the same, because blocks consist of whole
  // ones.
  const int64_t pieces = at_least(kPieces, 2 * parallel_threads());
  const int64_t blocks = rows == 1 ? vectors / (pieces * kDotBlock) : 0;
  return {kc, kDotBlock * std::clamp(blocks, least, at_least(kMostBlocks, least))};
}

// Vectors with unit stride along k, and `stride` between them.
struct Vectors {
  const char* data;
  DataType type;
  int64_t stride;
};

// The small operand as it lies in memory, if it can be multiplied so: no data otherwise.
Vectors halves_of(const Vectors& small, int64_t along_k, DataType large) {
  const bool fits = small.type == large && large != DataType::f32 && along_k == 1;
  return fits ? small : Vectors{};
}

template <typename Result>
void dot_pieces(const GemmCall& call, const GemmKernels& kernels, int64_t vectors,
                const GemmRows& small, const Vectors& halves, int64_t small_rows,
                const Vectors& large, const Result& result_of) {
  const DotSizes size = dot_sizes(small_rows, vectors, call.K, kernels);
  const int64_t element = data_type_size(large.type);
  const int64_t grain = gemm_grain(at_least(small_rows, 4), size.block, call.K);
  for_each_piece(divide_up(vectors, size.block), grain, [&](int64_t piece) {
    const int64_t first = piece * size.block;
    const int64_t count = std::min(size.block, vectors - first);
    const auto at = [&](int64_t vector, int64_t k) {
      return large.data + (vector * large.stride + k) * element;
    };
    result_of(first, count, [&](const GemmResult& result, int64_t c_row, int64_t c_column) {
      bool add = result.start();
      for (int64_t k = 0; k < call.K; k += size.kc) {
        const bool more = k + size.kc < call.K;
        const bool follows = size.kc < call.K && (more || first + size.block < vectors);
        const char* next = more ? at(first, k + size.kc) : at(first + size.block, 0);
        kernels.dot({small_rows, count, std::min(size.kc, call.K - k), small.data + k, small.stride,
                     at(first, k), large.type, large.stride, result.data(), c_row, c_column,
                     call.alpha, add,
                     follows ? GemmPrefetch{next, count, std::min(size.kc, call.K - k) * element,
                                            large.stride * element}
                             : GemmPrefetch{},
                     halves.data == nullptr ? nullptr : halves.data + k * element, halves.stride});
        add = true;
      }
      result.finish();
    });
  });
}

}  // namespace

void gemm_dot(const GemmCall& call, const GemmKernels& kernels, int64_t g) {
  const GemmRows a = rows(call, kernels, {g, 0, call.M, 0, call.K, 0, nullptr}, false);
  const GemmMatrix& b = call.b;
  Vectors halves{};
  if (call.pack_a.write == nullptr) {
    halves = halves_of({matrix_at(call.a, g, 0, 0), call.a.type, call.a.row_stride},
                       call.a.column_stride, b.type);
  }
  dot_pieces(call, kernels, call.N, a, halves, call.M,
             {matrix_at(b, g, 0, 0), b.type, b.column_stride},
             [&](int64_t n0, int64_t n, const auto& run) {
               const GemmResult result(call, kernels, {g, 0, call.M, n0, n});
               run(result, result.stride(), 1);
             });
}

void gemm_dot_columns(const GemmCall& call, const GemmKernels& kernels, int64_t g) {
  const GemmMatrix& a = call.a;
  const GemmRows b = columns(call, kernels, g);
  const Vectors halves = halves_of({matrix_at(call.b, g, 0, 0), call.b.type, call.b.column_stride},
                                   call.b.row_stride, a.type);
  dot_pieces(call, kernels, call.M, b, halves, call.N,
             {matrix_at(a, g, 0, 0), a.type, a.row_stride},
             [&](int64_t m0, int64_t m, const auto& run) {
               const GemmResult result(call, kernels, {g, m0, m, 0, call.N});
               run(result, 1, result.stride());
             });
}

void gemm_rows(const GemmCall& call, const GemmKernels& kernels, int64_t g) {
  const GemmRows a = rows(call, kernels, {g, 0, call.M, 0, call.K, 0, nullptr}, false);
  const GemmMatrix& b = call.b;
  // This many results stay in L1 beside the rows of B.
  const int64_t block = even_part(call.N, call.M <= 2 ? 2048 : 1024, 64);
  const int64_t grain = gemm_grain(4, block, call.K);
  for_each_piece(divide_up(call.N, block), grain, [&](int64_t piece) {
    const int64_t n0 = piece * block;
    const int64_t n = std::min(block, call.N - n0);
    const GemmResult result(call, kernels, {g, 0, call.M, n0, n});
    if (!result.start()) {
      result.clear();
    }
    kernels.rows({call.M, n, call.K, a.data, a.stride, matrix_at(b, g, 0, n0), b.type, b.row_stride,
                  result.data(), result.stride(), call.alpha});
    result.finish();
  });
}

}  // namespace cpuaccel::kernels
