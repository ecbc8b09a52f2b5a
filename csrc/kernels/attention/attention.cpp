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

// How the queries of a group of heads, which share keys and values, are cut into blocks: several
// whole heads, or a part of one.
struct Blocks {
  Blocks(const AttentionCall& call, int64_t mr)
      : heads(std::clamp<int64_t>(kQueries / call.L, 1, call.group)),
        queries(even_part(call.L, kQueries, mr)),
        of_heads(divide_up(call.group, heads)),
        of_queries(divide_up(call.L, queries)),
        groups(call.N * call.H / call.group) {}

  int64_t heads, queries;  // of a block; if there are several heads, all their queries
  int64_t of_heads, of_queries, groups;

  int64_t rows(const AttentionCall& call) const { return heads * std::min(queries, call.L); }
  int64_t count() const { return groups * of_heads * of_queries; }
};

// A block of queries against all keys.
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
                                            AttentionSums::room(call, most) +
                                            AttentionRows::room(call, keys_)),
        scores_(scratch_.take<float>(tile_ * score_stride_)),
        rows_(call, kernels, arithmetic.tile_kernels(), AttentionSums::from(call, most, scratch_),
              keys_, scratch_) {
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

  // `heads` heads from h on, and `queries` queries of each from l0 on.
  void run(int64_t n, int64_t h, int64_t heads, int64_t l0, int64_t queries) {
    n_ = n, h_ = h, l0_ = l0, queries_ = queries;
    const int64_t rows = heads * queries;
    rows_.begin(0, rows);
    const auto query = left(heads);
    const AttentionKeys seen = seen_keys(call_, l0, queries);
    if (seen.count() == 0) {
      std::fill_n(rows_.dst(0), rows * rows_.stride(), 0.0f);
    }
    for (int64_t s0 = seen.begin; s0 < seen.end; s0 += keys_) {
      const int64_t keys = std::min(keys_, seen.end - s0);
      pack(s0, keys);
      for (int64_t i = 0; i < rows; i += tile_) {
        const Tile tile = seen_part({i, std::min(tile_, rows - i), s0, keys, s0 == seen.begin});
        if (tile.keys == 0) {
          if (tile.first) {
            std::fill_n(rows_.dst(i), tile.rows * rows_.stride(), 0.0f);
          }
          continue;
        }
        score({query.data + i * query.stride, query.stride}, tile);
        for (int64_t row = 0; row < tile.rows; ++row) {
          rows_.softmax(i + row, query_of(i + row), scores_ + row * score_stride_,
                        {s0, s0 + tile.keys}, tile.first,
                        rounds_ ? weights(row, tile.keys) : nullptr, arithmetic_.bf16_together());
        }
        add_values(tile, keys);
      }
    }
    for (int64_t i = 0; i < rows; ++i) {
      rows_.finish(i, query_of(i));
    }
  }

 private:
  // A range of the rows and a range of keys.
  struct Tile {
    int64_t row, rows;
    int64_t s0, keys;
    bool first;  // these are the first keys that the block of queries sees
  };

  AttentionQuery query_of(int64_t row) const {
    return {n_, h_ + row / queries_, l0_ + row % queries_};
  }

  // The tile without the keys at its end that none of its queries sees; without all keys if none
  // of its queries sees any.
  Tile seen_part(Tile tile) const {
    if (!call_.causal) {
      return tile;
    }
    const int64_t first = tile.row % queries_, last = first + tile.rows - 1;
    const AttentionKeys seen = last < queries_ ? seen_keys(call_, l0_ + first, tile.rows)
                                               : seen_keys(call_, l0_, queries_);
    tile.keys = std::clamp<int64_t>(seen.end - tile.s0, 0, tile.keys);
    tile.keys = seen.begin >= tile.s0 + tile.keys ? 0 : tile.keys;
    return tile;
  }

  // The queries, in rows.
  AttentionArithmetic::Left left(int64_t heads) const {
    const int64_t stride = arithmetic_.left_stride(call_.E);
    AttentionArithmetic::Left found{};
    for (int64_t head = 0; head < heads; ++head) {
      const AttentionBlock from{
          at(call_.query, n_, h_ + head, l0_), call_.query.type, call_.query.row_stride,
          call_.query.column_stride,           queries_,         call_.E};
      if (heads == 1) {
        found = arithmetic_.left(from, query_);
      } else {
        arithmetic_.pack_left(from, query_ + head * queries_ * stride);
        found = {query_, stride};
      }
    }
    return found;
  }

  AttentionBlock block(const AttentionMatrix& matrix, int64_t row, int64_t rows) const {
    return {at(matrix, n_, h_ / call_.group, row),
            matrix.type,
            matrix.row_stride,
            matrix.column_stride,
            rows,
            call_.E};
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
        {query, key_, tile.rows, tile.keys, call_.E, call_.E, scores_, score_stride_, false});
  }

  // A row of weights in the left operand's layout, if the softmax writes that layout.
  uint16_t* weights(int64_t row, int64_t keys) const {
    return reinterpret_cast<uint16_t*>(weights_ + row * arithmetic_.left_stride(keys));
  }

  // `packed`: the number of values in value_.
  void add_values(const Tile& tile, int64_t packed) const {
    const auto weights =
        rounds_ ? AttentionArithmetic::Left{weights_, arithmetic_.left_stride(tile.keys)}
                : arithmetic_.left({scores_, DataType::f32, score_stride_, 1, tile.rows, tile.keys},
                                   weights_);
    arithmetic_.multiply({weights, value_, tile.rows, call_.E, tile.keys, packed,
                          rows_.dst(tile.row), rows_.stride(), !tile.first});
  }

  const AttentionCall& call_;
  const AttentionArithmetic& arithmetic_;
  const bool rounds_;  // the softmax rounds weights to bf16
  const int64_t tile_, keys_, score_stride_;
  ScratchArrays scratch_;
  float* const scores_;
  const AttentionRows rows_;
  float *query_, *weights_, *key_, *value_;
  int64_t n_ = 0, h_ = 0, l0_ = 0, queries_ = 0;
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
  const Blocks blocks(call, arithmetic.mr());
  const int64_t most = blocks.heads * blocks.queries;
  const int64_t grain = gemm_grain(blocks.rows(call), call.S, 2 * call.E);
  parallel_for(0, blocks.count(), grain, [&](int64_t begin, int64_t end) {
    const GemmTiles tiles(arithmetic.tile_kernels());
    Queries queries(call, kernels, arithmetic, most);
    for (int64_t i = begin; i < end; ++i) {
      const int64_t l0 = i % blocks.of_queries * blocks.queries;
      const int64_t head = i / blocks.of_queries % blocks.of_heads * blocks.heads;
      const int64_t group = i / blocks.of_queries / blocks.of_heads, groups = call.H / call.group;
      queries.run(group / groups, group % groups * call.group + head,
                  std::min(blocks.heads, call.group - head), l0,
                  std::min(blocks.queries, call.L - l0));
    }
  });
}

}  // namespace cpuaccel::kernels
