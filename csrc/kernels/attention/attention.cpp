#include "kernels/attention/attention.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "base/scratch_pieces.h"
#include "kernels/attention/arithmetic.h"
#include "kernels/gemm/blocking.h"
#include "kernels/gemm/pieces.h"

namespace cpuaccel::kernels {
namespace {

#define CPUACCEL_ROW(name, isa) KernelRow<AttentionFunction>{#name, isa, attention_##name},
constexpr std::array kRows{CPUACCEL_ATTENTION_KERNELS(CPUACCEL_ROW)};
#undef CPUACCEL_ROW

// Queries that share the packing of keys and values; some of them at a time meet so many keys, so
// that their scores stay in L1. Rows of scores are long because each waits for its maximum and its
// sum: 384 keys of 32 at once take 0.9 of the time that they take in halves.
constexpr int64_t kQueries = 432;
constexpr int64_t kKeys = 512;
// Queries whose products take as long as reading keys and values from memory does.
constexpr int64_t kReading = 8;
// Whole tiles of gemm, and all few queries at once.
int64_t tile_queries(int64_t mr) { return round_up(kAttentionFewQueries, mr); }

const char* at(const AttentionMatrix& matrix, int64_t n, int64_t h, int64_t row) {
  const int64_t index = n * matrix.batch_stride + h * matrix.head_stride + row * matrix.row_stride;
  return static_cast<const char*>(matrix.data) + index * gemm_type_size(matrix.type);
}

char* at(const AttentionDst& dst, int64_t n, int64_t h, int64_t row) {
  const int64_t index = n * dst.batch_stride + h * dst.head_stride + row * dst.row_stride;
  return static_cast<char*>(dst.data) + index * gemm_type_size(dst.type);
}

// Some queries of one head against all keys.
class Queries {
 public:
  Queries(const AttentionCall& call, const AttentionKernels& kernels,
          const AttentionArithmetic& arithmetic, int64_t most)
      : call_(call),
        kernels_(kernels),
        arithmetic_(arithmetic),
        tile_(std::min(most, tile_queries(arithmetic.mr()))),
        keys_(even_part(call.S, kKeys, 1)),
        score_stride_(round_up(keys_, 16) + 16),
        dst_stride_(round_up(call.E, 16)) {
    // A row of floats takes no less than one of pairs.
    const int64_t query = most * floats_.left_stride(call.E);
    const int64_t weights = tile_ * arithmetic.left_stride(keys_);
    ScratchPieces left(ScratchSlot::gemm_a,
                       ScratchPieces::room<float>(query) + ScratchPieces::room<float>(weights));
    query_ = left.take<float>(query);
    weights_ = left.take<float>(weights);

    const int64_t key = arithmetic.right_floats(call.E, keys_);
    const int64_t value = arithmetic.right_floats(keys_, call.E);
    ScratchPieces right(ScratchSlot::gemm_b,
                        ScratchPieces::room<float>(key) + ScratchPieces::room<float>(value));
    key_ = right.take<float>(key);
    value_ = right.take<float>(value);

    const int64_t room = ScratchPieces::room<float>(tile_ * score_stride_) +
                         ScratchPieces::room<float>(most * dst_stride_) +
                         2 * ScratchPieces::room<float>(most) + ScratchPieces::room<float>(keys_);
    ScratchPieces sums(ScratchSlot::gemm_dst, room);
    scores_ = sums.take<float>(tile_ * score_stride_);
    dst_ = sums.take<float>(most * dst_stride_);
    max_ = sums.take<float>(most);
    sum_ = sums.take<float>(most);
    mask_ = sums.take<float>(keys_);
  }

  void run(int64_t n, int64_t h, int64_t l0, int64_t rows) {
    n_ = n, h_ = h, l0_ = l0;
    few_ = rows <= kAttentionFewQueries && call_.key.column_stride == 1 &&
           call_.value.column_stride == 1;
    std::fill_n(max_, rows, -std::numeric_limits<float>::infinity());
    std::fill_n(sum_, rows, 0.0f);
    const auto query = (few_ ? floats_ : arithmetic_).left(block(call_.query, l0, rows), query_);
    const int64_t end = call_.causal ? std::min(call_.S, l0 + rows) : call_.S;
    for (int64_t s0 = 0; s0 < end; s0 += keys_) {
      const int64_t keys = std::min(keys_, end - s0);
      pack(s0, keys);
      for (int64_t i = 0; i < rows; i += tile_) {
        const Tile tile{i, std::min(tile_, rows - i), s0, keys};
        score({query.data + i * query.stride, query.stride}, tile);
        for (int64_t row = 0; row < tile.rows; ++row) {
          softmax(row, tile);
        }
        add_values(tile);
      }
    }
    for (int64_t i = 0; i < rows; ++i) {
      finish(i);
    }
  }

 private:
  // Some of the queries and some keys.
  struct Tile {
    int64_t first, rows;  // from l0_ on
    int64_t s0, keys;
  };

  AttentionBlock block(const AttentionMatrix& matrix, int64_t row, int64_t rows) const {
    return {at(matrix, n_, h_, row), matrix.type, matrix.row_stride,
            matrix.column_stride,    rows,        call_.E};
  }

  void pack(int64_t s0, int64_t keys) const {
    if (few_) {
      return;
    }
    AttentionBlock key = block(call_.key, s0, keys);
    std::swap(key.row_stride, key.column_stride);
    std::swap(key.rows, key.columns);
    arithmetic_.right(key, key_);
    arithmetic_.right(block(call_.value, s0, keys), value_);
  }

  void score(const AttentionArithmetic::Left& query, const Tile& tile) const {
    if (few_) {
      const AttentionBlock key = block(call_.key, tile.s0, tile.keys);
      arithmetic_.f32().dot({tile.rows,
                             tile.keys,
                             call_.E,
                             query.data,
                             query.stride,
                             key.data,
                             key.type,
                             key.row_stride,
                             scores_,
                             score_stride_,
                             1,
                             call_.scale,
                             false,
                             {}});
      return;
    }
    arithmetic_.multiply(
        {query, key_, tile.rows, tile.keys, call_.E, scores_, score_stride_, call_.scale, false});
  }

  const float* mask(int64_t row, int64_t s0, int64_t keys) const {
    const AttentionMatrix& mask = call_.mask;
    if (mask.data == nullptr) {
      return nullptr;
    }
    const char* data = at(mask, n_, h_, row) + s0 * mask.column_stride * gemm_type_size(mask.type);
    if (mask.type == GemmType::f32 && mask.column_stride == 1) {
      return reinterpret_cast<const float*>(data);
    }
    arithmetic_.f32().load({data, mask.type, 0, mask.column_stride, 1, keys, mask_, keys});
    return mask_;
  }

  void softmax(int64_t tile_row, const Tile& tile) const {
    const auto [first, rows, s0, keys] = tile;
    const int64_t i = first + tile_row, row = l0_ + i;
    const int64_t seen = call_.causal ? std::clamp<int64_t>(row + 1 - s0, 0, keys) : keys;
    float* scores = scores_ + tile_row * score_stride_;
    std::fill(scores + seen, scores + keys, 0.0f);
    if (seen == 0) {
      return;
    }
    const float before = max_[i];
    const auto [max, sum] = kernels_.softmax({scores, seen, mask(row, s0, seen), before});
    max_[i] = max;
    if (s0 == 0) {
      sum_[i] = sum;
      return;
    }
    // Of nothing there is nothing to scale; minus infinity less itself would be NaN.
    const float factor = before == max ? 1.0f : std::exp(before - max);
    sum_[i] = sum_[i] * factor + sum;
    if (factor != 1.0f) {
      kernels_.scale(dst_ + i * dst_stride_, call_.E, factor);
    }
  }

  void add_values(const Tile& tile) const {
    float* const dst = dst_ + tile.first * dst_stride_;
    const bool add = tile.s0 != 0;
    if (few_) {
      add_few(block(call_.value, tile.s0, tile.keys), tile.rows, dst, add);
      return;
    }
    const auto weights = arithmetic_.left(
        {scores_, GemmType::f32, score_stride_, 1, tile.rows, tile.keys}, weights_);
    arithmetic_.multiply(
        {weights, value_, tile.rows, call_.E, tile.keys, dst, dst_stride_, 1.0f, add});
  }

  void add_few(const AttentionBlock& value, int64_t queries, float* to, bool add) const {
    for (int64_t i = 0; i < queries; i += kRowsMost) {
      const int64_t rows = std::min(kRowsMost, queries - i);
      float* const dst = to + i * dst_stride_;
      if (!add) {
        std::fill_n(dst, rows * dst_stride_, 0.0f);
      }
      arithmetic_.f32().rows({rows, call_.E, value.rows, scores_ + i * score_stride_, score_stride_,
                              value.data, value.type, value.row_stride, dst, dst_stride_, 1.0f});
    }
  }

  void finish(int64_t i) const {
    const int64_t row = l0_ + i;
    const float sum = sum_[i];
    float* const result = dst_ + i * dst_stride_;
    kernels_.scale(result, call_.E, sum == 0.0f ? 1.0f : 1.0f / sum);
    arithmetic_.f32().store(result, call_.E, at(call_.dst, n_, h_, row), call_.dst.type);
    if (call_.logsumexp.data != nullptr) {
      *reinterpret_cast<float*>(at(call_.logsumexp, n_, h_, row)) =
          sum == 0.0f ? 0.0f : max_[i] + std::log(sum);
    }
  }

  const AttentionCall& call_;
  const AttentionKernels& kernels_;
  const AttentionArithmetic& arithmetic_;
  const AttentionArithmetic floats_{false};  // of few queries
  const int64_t tile_, keys_;
  const int64_t score_stride_, dst_stride_;
  float *query_, *weights_, *key_, *value_, *scores_, *dst_, *max_, *sum_, *mask_;
  int64_t n_ = 0, h_ = 0, l0_ = 0;
  bool few_ = false;
};

}  // namespace

std::span<const KernelRow<AttentionFunction>> attention_kernels() { return kRows; }

void attention(const AttentionCall& call) {
  attention(call, first_usable(attention_kernels()).function);
}

void attention(const AttentionCall& call, AttentionFunction* row) {
  const AttentionKernels& kernels = row();
  const AttentionArithmetic arithmetic(call.bf16);
  const int64_t most = even_part(call.L, kQueries, arithmetic.mr());
  const int64_t blocks = divide_up(call.L, most);
  const int64_t grain = gemm_grain(std::max(kReading, std::min(most, call.L)), call.S, 2 * call.E);
  parallel_for(0, call.N * call.H * blocks, grain, [&](int64_t begin, int64_t end) {
    Queries queries(call, kernels, arithmetic, most);
    for (int64_t i = begin; i < end; ++i) {
      const int64_t head = i / blocks, l0 = i % blocks * most;
      queries.run(head / call.H, head % call.H, l0, std::min(most, call.L - l0));
    }
  });
}

}  // namespace cpuaccel::kernels
