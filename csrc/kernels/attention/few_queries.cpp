#include "kernels/attention/few_queries.h"

#include <algorithm>

#include "base/scratch_arrays.h"
#include "kernels/attention/arithmetic.h"
#include "kernels/attention/cut.h"
#include "kernels/attention/group_queries.h"
#include "kernels/attention/rows.h"
#include "kernels/gemm/blocking.h"
#include "kernels/gemm/pieces.h"

namespace cpuaccel::kernels {
namespace {

// Scores that are stored (128 KiB, in L2) while the keys of other pieces are read, before any
// values are. Each change from keys to values interrupts the memory stream for half a microsecond.
constexpr int64_t kScores = 1 << 15;

// Keys or values that all rows meet while they are in L1, as f32: 16 KiB.
constexpr int64_t kBlockFloats = 4096;

class Pieces {
 public:
  // `shared`: the sums of all pieces if heads are cut into parts, else null.
  Pieces(const AttentionCall& call, const AttentionKernels& kernels, const KeyCut& cut,
         const AttentionSums* shared)
      : call_(call),
        kernels_(kernels),
        cut_(cut),
        is_shared_(shared != nullptr),
        score_stride_(round_up(cut.keys, 16)),
        most_(std::clamp<int64_t>(kScores / (cut.rows * score_stride_), 1, cut.heads * cut.parts)),
        wide_stride_(round_up(call.E, 16)),
        block_(std::max<int64_t>(kBlockFloats / wide_stride_, 1)),
        scratch_(ScratchSlot::gemm_dst,
                 ScratchArrays::room<float>(most_ * cut.rows * score_stride_) +
                     ScratchArrays::room<float>(cut.rows * wide_stride_) +
                     ScratchArrays::room<float>(block_ * wide_stride_) +
                     ScratchArrays::room<float>(cut.keys) + AttentionRows::room(call, cut.keys) +
                     (is_shared_ ? 0 : AttentionSums::room(call, most_ * cut.rows))),
        scores_(scratch_.take<float>(most_ * cut.rows * score_stride_)),
        query_(scratch_.take<float>(cut.rows * wide_stride_)),
        wide_(scratch_.take<float>(block_ * wide_stride_)),
        scales_(scratch_.take<float>(cut.keys)),
        rows_(call, kernels, floats_.f32(),
              is_shared_ ? *shared : AttentionSums::from(call, most_ * cut.rows, scratch_),
              cut.keys, scratch_) {}

  void run(int64_t begin, int64_t end) const {
    for (int64_t first = begin; first < end; first += most_) {
      run_together(first, std::min(most_, end - first));
    }
  }

  void merge() const { cut_.merge(call_, rows_); }

 private:
  // A matrix of 8 or 16 bits, or f32, whose rows lie in place or in wide_.
  struct Block {
    const void* data;
    DataType type;
    int64_t row_stride;
  };

  void run_together(int64_t first, int64_t pieces) const {
    const int64_t base = is_shared_ ? first * cut_.rows : 0;  // the row of sums
    rows_.begin(base, pieces * cut_.rows);
    for (int64_t i = 0; i < pieces; ++i) {
      score(first + i, scores_ + i * cut_.rows * score_stride_);
    }
    for (int64_t i = 0; i < pieces; ++i) {
      const int64_t head = (first + i) / cut_.parts;
      const AttentionKeys keys = keys_of(first + i);
      for (int64_t row = 0; row < cut_.rows; ++row) {
        float* const scores = scores_ + (i * cut_.rows + row) * score_stride_;
        rows_.softmax(base + i * cut_.rows + row, query_of(head, row), scores, keys, true);
      }
    }
    for (int64_t i = 0; i < pieces; ++i) {
      add_values(first + i, scores_ + i * cut_.rows * score_stride_, base + i * cut_.rows);
    }
    for (int64_t i = 0; !is_shared_ && i < pieces; ++i) {
      for (int64_t row = 0; row < cut_.rows; ++row) {
        rows_.finish(i * cut_.rows + row, query_of(first + i, row));
      }
    }
  }

  AttentionKeys keys_of(int64_t piece) const { return cut_.keys_of(piece % cut_.parts); }

  // Row `row` of a head of keys.
  AttentionQuery query_of(int64_t head, int64_t row) const {
    return cut_.query_of(call_, head, row);
  }

  // The queries of a head of keys, in rows.
  AttentionArithmetic::Left queries(int64_t head) const {
    const AttentionMatrix& query = call_.query;
    const auto block = [&](int64_t row, int64_t row_stride, int64_t rows) {
      const AttentionQuery first = query_of(head, row);
      return AttentionBlock{at(query, first.n, first.h, first.l),
                            query.type,
                            row_stride,
                            query.column_stride,
                            rows,
                            call_.E};
    };
    if (call_.L == 1) {
      return as_left(block(0, query.head_stride, cut_.rows), query_);
    }
    if (call_.group == 1) {
      return as_left(block(0, query.row_stride, cut_.rows), query_);
    }
    for (int64_t row = 0; row < cut_.rows; row += call_.L) {
      const AttentionBlock from = block(row, query.row_stride, call_.L);
      floats_.f32().load({from.data, from.type, from.row_stride, from.column_stride, from.rows,
                          from.columns, query_ + row * wide_stride_, wide_stride_});
    }
    return {query_, wide_stride_};
  }

  AttentionArithmetic::Left as_left(const AttentionBlock& from, float* to) const {
    if (from.type == DataType::f32 && from.column_stride == 1) {
      return {static_cast<const float*>(from.data), from.row_stride};
    }
    floats_.f32().load({from.data, from.type, from.row_stride, from.column_stride, from.rows,
                        from.columns, to, wide_stride_});
    return {to, wide_stride_};
  }

  // Whether elements are widened once for all rows, not for each tile of rows.
  bool widens(const AttentionMatrix& matrix, int64_t together) const {
    return matrix.type == DataType::s8 || (matrix.type != DataType::f32 && cut_.rows > together);
  }
  // Keys or values that are multiplied at a time.
  int64_t block(const AttentionMatrix& matrix, int64_t together, int64_t keys) const {
    return cut_.rows > together || widens(matrix, together) ? block_ : keys;
  }

  // The rows of a head's keys or values from s0 on.
  Block rows_of(const AttentionMatrix& matrix, int64_t head, int64_t s0, int64_t rows,
                int64_t together) const {
    const int64_t heads = call_.H / call_.group;
    const char* const data = at(matrix, head / heads, head % heads, s0);
    if (!widens(matrix, together)) {
      return {data, matrix.type, matrix.row_stride};
    }
    if (matrix.type == DataType::s8) {
      for (int64_t row = 0; row < rows; ++row) {
        kernels_.widen(reinterpret_cast<const int8_t*>(data) + row * matrix.row_stride, call_.E,
                       wide_ + row * wide_stride_);
      }
    } else {
      floats_.f32().load(
          {data, matrix.type, matrix.row_stride, 1, rows, call_.E, wide_, wide_stride_});
    }
    return {wide_, DataType::f32, wide_stride_};
  }

  // Multiplies the columns of `rows` by the scales of their keys.
  void apply(const AttentionScales& scales, int64_t piece, float* scores) const {
    if (scales.data == nullptr) {
      return;
    }
    const int64_t heads = call_.H / call_.group, head = piece / cut_.parts;
    const AttentionKeys keys = keys_of(piece);
    const float* from = scales.data + head / heads * scales.batch_stride +
                        head % heads * scales.head_stride + keys.begin * scales.row_stride;
    if (scales.row_stride != 1) {
      for (int64_t s = 0; s < keys.count(); ++s) {
        scales_[s] = from[s * scales.row_stride];
      }
      from = scales_;
    }
    for (int64_t row = 0; row < cut_.rows; ++row) {
      kernels_.multiply(scores + row * score_stride_, from, keys.count());
    }
  }

  void score(int64_t piece, float* scores) const {
    const int64_t head = piece / cut_.parts, together = floats_.f32().dot_rows;
    const AttentionKeys keys = keys_of(piece);
    const auto left = queries(head);
    const int64_t block = this->block(call_.key, together, keys.count());
    for (int64_t s = 0; s < keys.count(); s += block) {
      const int64_t count = std::min(block, keys.count() - s);
      const Block right = rows_of(call_.key, head, keys.begin + s, count, together);
      floats_.f32().dot({cut_.rows,
                         count,
                         call_.E,
                         left.data,
                         left.stride,
                         right.data,
                         right.type,
                         right.row_stride,
                         scores + s,
                         score_stride_,
                         1,
                         1.0f,
                         false,
                         {}});
    }
    apply(call_.key_scales, piece, scores);
  }

  void add_values(int64_t piece, float* weights, int64_t base) const {
    const int64_t head = piece / cut_.parts;
    const AttentionKeys keys = keys_of(piece);
    apply(call_.value_scales, piece, weights);
    std::fill_n(rows_.dst(base), cut_.rows * rows_.stride(), 0.0f);
    // Tiles of four rows add three values at a time to each sum, and those of six rows two.
    const int64_t rows = cut_.rows <= kRowsMost ? cut_.rows : even_part(cut_.rows, 4, 1);
    const int64_t block = this->block(call_.value, rows, keys.count());
    for (int64_t s = 0; s < keys.count(); s += block) {
      const int64_t count = std::min(block, keys.count() - s);
      const Block right = rows_of(call_.value, head, keys.begin + s, count, rows);
      for (int64_t row = 0; row < cut_.rows; row += rows) {
        floats_.f32().rows({std::min(rows, cut_.rows - row), call_.E, count,
                            weights + row * score_stride_ + s, score_stride_, right.data,
                            right.type, right.row_stride, rows_.dst(base + row), rows_.stride(),
                            1.0f});
      }
    }
  }

  const AttentionCall& call_;
  const AttentionKernels& kernels_;
  const KeyCut& cut_;
  const AttentionArithmetic floats_{false};
  const bool is_shared_;
  const int64_t score_stride_;
  const int64_t most_;  // pieces that run together
  const int64_t wide_stride_, block_;
  ScratchArrays scratch_;
  float *const scores_, *const query_, *const wide_, *const scales_;
  const AttentionRows rows_;
};

}  // namespace

bool are_few_queries(const AttentionCall& call) {
  const bool few =
      call.group == 1 ? call.L <= kAttentionFewQueries : call.group * call.L <= kAttentionFewRows;
  return call.key.type == DataType::s8 ||
         (few && call.key.column_stride == 1 && call.value.column_stride == 1);
}

void attention_of_few_queries(const AttentionCall& call, const AttentionKernels& kernels) {
  if (are_group_queries(call, kernels)) {
    attention_of_group_queries(call, kernels);
    return;
  }
  const KeyCut cut(call);
  in_pieces(call, cut,
            [&](const AttentionSums* shared) { return Pieces(call, kernels, cut, shared); });
}

}  // namespace cpuaccel::kernels
