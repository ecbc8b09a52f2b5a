#include "kernels/attention/attention.h"

#include <algorithm>
#include <array>

#include "base/scratch_arrays.h"
#include "kernels/attention/arithmetic.h"
#include "kernels/attention/few_queries.h"
#include "kernels/attention/rows.h"
#include "kernels/gemm/blocking.h"
#include "kernels/gemm/pieces.h"

namespace cpuaccel::kernels {
namespace {

constexpr std::array kRows{
#define CPUACCEL_KERNEL(name) CPUACCEL_ROW(KernelRow<AttentionFunction>, name, attention_##name)
#include "kernels/attention/kernels.inc"
#undef CPUACCEL_KERNEL
};

// kQueries queries share the packing of keys and values. A tile of them meets at most kKeys keys at
// a time, so that their scores stay in L1. Rows of scores are long because each waits for its
// maximum and its sum: 384 keys of size 32 at once take 0.9 of the time that they take in two
// halves.
constexpr int64_t kQueries = 432;
constexpr int64_t kKeys = 512;
// A multiple of gemm's tile height.
int64_t tile_queries(int64_t mr) { return round_up(8, mr); }

// A range of queries of one head against all keys.
class Queries {
 public:
  Queries(const AttentionCall& call, const AttentionKernels& kernels,
          const AttentionArithmetic& arithmetic, int64_t most)
      : call_(call),
        arithmetic_(arithmetic),
        rounds_(kernels.softmax_bf16 != nullptr && arithmetic.takes_rows_of_bf16()),
        tile_(std::min(most, tile_queries(arithmetic.mr()))),
        keys_(even_part(call.S, kKeys, 1)),
        score_stride_(round_up(keys_, 16) + 16),
        scratch_(ScratchSlot::gemm_dst, ScratchArrays::room<float>(tile_ * score_stride_) +
                                            AttentionRows::room(call, most, keys_)),
        scores_(scratch_.take<float>(tile_ * score_stride_)),
        rows_(call, kernels, arithmetic.tile_kernels(), most, keys_, scratch_) {
    const int64_t query = most * arithmetic.left_stride(call.E);
    const int64_t weights = tile_ * arithmetic.left_stride(keys_);
    ScratchArrays left(ScratchSlot::gemm_a,
                       ScratchArrays::room<float>(query) + ScratchArrays::room<float>(weights));
    query_ = left.take<float>(query);
    weights_ = left.take<float>(weights);

    const int64_t key = arithmetic.right_floats(call.E, keys_);
    const int64_t value = arithmetic.right_floats(keys_, call.E);
    ScratchArrays right(ScratchSlot::gemm_b,
                        ScratchArrays::room<float>(key) + ScratchArrays::room<float>(value));
    key_ = right.take<float>(key);
    value_ = right.take<float>(value);
  }

  void run(int64_t n, int64_t h, int64_t l0, int64_t rows) {
    n_ = n, h_ = h, l0_ = l0;
    rows_.begin(rows);
    const auto query = arithmetic_.left(block(call_.query, l0, rows), query_);
    const int64_t end = call_.causal ? std::min(call_.S, l0 + rows) : call_.S;
    for (int64_t s0 = 0; s0 < end; s0 += keys_) {
      const int64_t keys = std::min(keys_, end - s0);
      pack(s0, keys);
      for (int64_t i = 0; i < rows; i += tile_) {
        const Tile tile{i, std::min(tile_, rows - i), s0, keys};
        score({query.data + i * query.stride, query.stride}, tile);
        for (int64_t row = 0; row < tile.rows; ++row) {
          rows_.softmax(i + row, {n_, h_, l0_ + i + row}, scores_ + row * score_stride_, s0, keys,
                        rounds_ ? weights(row, keys) : nullptr, arithmetic_.bf16_together());
        }
        add_values(tile);
      }
    }
    for (int64_t i = 0; i < rows; ++i) {
      rows_.finish(i, {n_, h_, l0_ + i});
    }
  }

 private:
  // A range of the queries and a range of keys.
  struct Tile {
    int64_t first, rows;  // relative to l0_
    int64_t s0, keys;
  };

  AttentionBlock block(const AttentionMatrix& matrix, int64_t row, int64_t rows) const {
    return {at(matrix, n_, h_, row), matrix.type, matrix.row_stride,
            matrix.column_stride,    rows,        call_.E};
  }

  void pack(int64_t s0, int64_t keys) const {
    AttentionBlock key = block(call_.key, s0, keys);
    std::swap(key.row_stride, key.column_stride);
    std::swap(key.rows, key.columns);
    arithmetic_.right(key, key_);
    arithmetic_.right(block(call_.value, s0, keys), value_);
  }

  void score(const AttentionArithmetic::Left& query, const Tile& tile) const {
    arithmetic_.multiply(
        {query, key_, tile.rows, tile.keys, call_.E, scores_, score_stride_, false});
  }

  // A row of weights in the left operand's layout, if the softmax writes that layout.
  uint16_t* weights(int64_t row, int64_t keys) const {
    return reinterpret_cast<uint16_t*>(weights_ + row * arithmetic_.left_stride(keys));
  }

  void add_values(const Tile& tile) const {
    const auto weights =
        rounds_ ? AttentionArithmetic::Left{weights_, arithmetic_.left_stride(tile.keys)}
                : arithmetic_.left({scores_, DataType::f32, score_stride_, 1, tile.rows, tile.keys},
                                   weights_);
    arithmetic_.multiply({weights, value_, tile.rows, call_.E, tile.keys, rows_.dst(tile.first),
                          rows_.stride(), tile.s0 != 0});
  }

  const AttentionCall& call_;
  const AttentionArithmetic& arithmetic_;
  const bool rounds_;  // the softmax rounds weights to bf16
  const int64_t tile_, keys_, score_stride_;
  ScratchArrays scratch_;
  float* const scores_;
  const AttentionRows rows_;
  float *query_, *weights_, *key_, *value_;
  int64_t n_ = 0, h_ = 0, l0_ = 0;
};

}  // namespace

std::span<const KernelRow<AttentionFunction>> attention_kernels() { return kRows; }

void attention(const AttentionCall& call) {
  attention(call, first_usable(attention_kernels()).function);
}

void attention(const AttentionCall& call, AttentionFunction* row) {
  const AttentionKernels& kernels = row();
  if (are_few_queries(call)) {
    attention_of_few_queries(call, kernels);
    return;
  }
  const AttentionArithmetic arithmetic(call.bf16);
  const int64_t most = even_part(call.L, kQueries, arithmetic.mr());
  const int64_t blocks = divide_up(call.L, most);
  const int64_t grain = gemm_grain(std::min(most, call.L), call.S, 2 * call.E);
  parallel_for(0, call.N * call.H * blocks, grain, [&](int64_t begin, int64_t end) {
    const GemmTiles tiles(arithmetic.tile_kernels());
    Queries queries(call, kernels, arithmetic, most);
    for (int64_t i = begin; i < end; ++i) {
      const int64_t head = i / blocks, l0 = i % blocks * most;
      queries.run(head / call.H, head % call.H, l0, std::min(most, call.L - l0));
    }
  });
}

}  // namespace cpuaccel::kernels
