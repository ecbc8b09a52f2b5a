#include "kernels/attention/group_queries.h"

#include <algorithm>
#include <limits>

#include "base/scratch_arrays.h"
#include "kernels/attention/cut.h"
#include "kernels/attention/groups.h"
#include "kernels/attention/rows.h"
#include "kernels/gemm/gemm.h"
#include "kernels/round_up.h"

namespace cpuaccel::kernels {
namespace {

// Scores that are stored (128 KiB, in L2) before any values are read.
constexpr int64_t kScores = 1 << 15;

// Bytes of keys or values that all rows meet while they are in L1.
constexpr int64_t kBlock = 8192;

class GroupPieces {
 public:
  GroupPieces(const AttentionCall& call, const AttentionKernels& kernels, const KeyCut& cut,
              const AttentionSums* shared)
      : call_(call),
        groups_(*kernels.groups),
        floats_(first_usable(gemm_kernels()).function()),
        cut_(cut),
        is_shared_(shared != nullptr),
        together_(even_part(cut.rows, kGroupRows, 1)),
        lanes_(group_lanes(together_)),
        tiles_(divide_up(cut.rows, together_)),
        tile_scores_(round_up(cut.keys, kGroupKeys) * lanes_),
        most_(std::clamp<int64_t>(kScores / (tiles_ * tile_scores_), 1, cut.heads * cut.parts)),
        widens_(!groups_.takes(call.key.type, call.E)),
        scratch_(ScratchSlot::gemm_dst,
                 ScratchArrays::room<float>(most_ * tiles_ * tile_scores_) +
                     ScratchArrays::room<float>(together_ * call.E) +
                     ScratchArrays::room<float>(tiles_ * tile_query()) +
                     ScratchArrays::room<float>(block(DataType::f32) * call.E) +
                     ScratchArrays::room<float>(cut.keys) + AttentionRows::room(call, cut.keys) +
                     (is_shared_ ? 0 : AttentionSums::room(call, most_ * cut.rows))),
        scores_(scratch_.take<float>(most_ * tiles_ * tile_scores_)),
        rows_of_query_(scratch_.take<float>(together_ * call.E)),
        query_(scratch_.take<float>(tiles_ * tile_query())),
        wide_(scratch_.take<float>(block(DataType::f32) * call.E)),
        scales_(scratch_.take<float>(cut.keys)),
        rows_(call, kernels, floats_,
              is_shared_ ? *shared : AttentionSums::from(call, most_ * cut.rows, scratch_),
              cut.keys, scratch_) {}

  void run(int64_t begin, int64_t end) const {
    for (int64_t first = begin; first < end; first += most_) {
      run_together(first, std::min(most_, end - first));
    }
  }

  void merge() const { cut_.merge(call_, rows_); }

 private:
  // Some rows of a head, in the lanes of one call.
  struct Tile {
    int64_t first, rows;
  };
  Tile tile(int64_t i) const {
    return {i * together_, std::min(together_, cut_.rows - i * together_)};
  }

  void run_together(int64_t first, int64_t pieces) const {
    const int64_t base = is_shared_ ? first * cut_.rows : 0;  // the row of sums
    for (int64_t i = 0; i < pieces; ++i) {
      score(first + i, scores(i, 0));
    }
    for (int64_t i = 0; i < pieces; ++i) {
      for (int64_t t = 0; t < tiles_; ++t) {
        softmax(first + i, tile(t), scores(i, t), base + i * cut_.rows);
      }
    }
    for (int64_t i = 0; i < pieces; ++i) {
      add_values(first + i, scores(i, 0), base + i * cut_.rows);
    }
    for (int64_t i = 0; !is_shared_ && i < pieces; ++i) {
      for (int64_t row = 0; row < cut_.rows; ++row) {
        rows_.finish(i * cut_.rows + row, cut_.query_of(call_, first + i, row));
      }
    }
  }

  float* scores(int64_t i, int64_t tile) const {
    return scores_ + (i * tiles_ + tile) * tile_scores_;
  }
  int64_t tile_query() const { return lanes_ * call_.E + 8; }  // floats of a packed tile
  int64_t head_of(int64_t piece) const { return piece / cut_.parts; }
  AttentionKeys keys_of(int64_t piece) const { return cut_.keys_of(piece % cut_.parts); }

  // Keys or values of this type in kBlock bytes.
  int64_t block(DataType type) const {
    const int64_t rows = kBlock / (call_.E * data_type_size(type));
    return std::max<int64_t>(rows / kGroupKeys, 1) * kGroupKeys;
  }

  GroupMatrix rows_of(const AttentionMatrix& matrix, int64_t head, int64_t s0, int64_t rows) const {
    const int64_t heads = call_.H / call_.group;
    return {at(matrix, head / heads, head % heads, s0), matrix.type, matrix.row_stride, rows,
            call_.E};
  }

  void pack_queries(int64_t head) const {
    const AttentionMatrix& query = call_.query;
    for (int64_t t = 0; t < tiles_; ++t) {
      const auto [first, rows] = tile(t);
      for (int64_t row = 0; row < rows; ++row) {
        const AttentionQuery of = cut_.query_of(call_, head, first + row);
        floats_.load({at(query, of.n, of.h, of.l), query.type, 0, query.column_stride, 1, call_.E,
                      rows_of_query_ + row * call_.E, call_.E});
      }
      groups_.query(rows_of_query_, call_.E, rows, lanes_, call_.E, call_.scale,
                    widens_ ? DataType::f32 : call_.key.type, query_ + t * tile_query());
    }
  }

  void score(int64_t piece, float* scores) const {
    const int64_t head = head_of(piece);
    const AttentionKeys keys = keys_of(piece);
    pack_queries(head);
    const int64_t together = widens_ ? block(DataType::f32) : block(call_.key.type);
    const int64_t block = tiles_ > 1 || widens_ ? together : keys.count();
    for (int64_t s = 0; s < keys.count(); s += block) {
      GroupMatrix of = rows_of(call_.key, head, keys.begin + s, std::min(block, keys.count() - s));
      if (widens_) {
        groups_.widen(of, wide_);
        of.data = wide_, of.type = DataType::f32, of.row_stride = call_.E;
      }
      for (int64_t t = 0; t < tiles_; ++t) {
        groups_.scores(of, query_ + t * tile_query(), lanes_,
                       scores + t * tile_scores_ + s * lanes_);
      }
    }
    multiply(call_.key_scales, piece, scores);
  }

  // Multiplies scores or weights by the scales of their keys.
  void multiply(const AttentionScales& scales, int64_t piece, float* scores) const {
    if (scales.data == nullptr) {
      return;
    }
    const int64_t heads = call_.H / call_.group, head = head_of(piece);
    const AttentionKeys keys = keys_of(piece);
    const float* from = scales.data + head / heads * scales.batch_stride +
                        head % heads * scales.head_stride + keys.begin * scales.row_stride;
    if (scales.row_stride != 1) {
      for (int64_t s = 0; s < keys.count(); ++s) {
        scales_[s] = from[s * scales.row_stride];
      }
      from = scales_;
    }
    for (int64_t t = 0; t < tiles_; ++t) {
      groups_.multiply(scores + t * tile_scores_, from, keys.count(), lanes_);
    }
  }

  void softmax(int64_t piece, const Tile& tile, float* scores, int64_t base) const {
    const AttentionKeys keys = keys_of(piece);
    rows_.capped(scores, keys.count() * lanes_, 1.0f);
    for (int64_t r = 0; r < tile.rows; ++r) {
      const AttentionQuery query = cut_.query_of(call_, head_of(piece), tile.first + r);
      if (const float* const mask = rows_.mask(query, keys.begin, keys.count())) {
        for (int64_t s = 0; s < keys.count(); ++s) {
          scores[s * lanes_ + r] += mask[s];
        }
      }
      hide(scores + r, keys, seen_keys(call_, query.l));
    }
    float max[kGroupRows], sum[kGroupRows];
    groups_.softmax(scores, round_up(keys.count(), kGroupKeys), lanes_, max, sum);
    for (int64_t r = 0; r < tile.rows; ++r) {
      rows_.set(base + tile.first + r, max[r], sum[r]);
    }
  }

  // Masks the keys of a row that are not among `seen`.
  void hide(float* row, const AttentionKeys& keys, const AttentionKeys& seen) const {
    for (int64_t s = keys.begin; s < std::min(seen.begin, keys.end); ++s) {
      row[(s - keys.begin) * lanes_] = -std::numeric_limits<float>::infinity();
    }
    for (int64_t s = std::max(seen.end, keys.begin); s < keys.end; ++s) {
      row[(s - keys.begin) * lanes_] = -std::numeric_limits<float>::infinity();
    }
  }

  void add_values(int64_t piece, float* weights, int64_t base) const {
    const int64_t head = head_of(piece), block = this->block(call_.value.type);
    const AttentionKeys keys = keys_of(piece);
    multiply(call_.value_scales, piece, weights);
    std::fill_n(rows_.dst(base), cut_.rows * rows_.stride(), 0.0f);
    for (int64_t s = 0; s < keys.count(); s += block) {
      const GroupMatrix of =
          rows_of(call_.value, head, keys.begin + s, std::min(block, keys.count() - s));
      for (int64_t t = 0; t < tiles_; ++t) {
        const auto [first, rows] = tile(t);
        groups_.values(of, weights + t * tile_scores_ + s * lanes_, lanes_, rows,
                       rows_.dst(base + first), rows_.stride());
      }
    }
  }

  const AttentionCall& call_;
  const AttentionGroups& groups_;
  const GemmKernels& floats_;
  const KeyCut& cut_;
  const bool is_shared_;
  const int64_t together_, lanes_, tiles_;  // rows of a tile, their lanes, tiles of a head
  const int64_t tile_scores_;
  const int64_t most_;  // pieces that run together
  const bool widens_;   // keys are widened before they are multiplied
  ScratchArrays scratch_;
  float *const scores_, *const rows_of_query_, *const query_, *const wide_, *const scales_;
  const AttentionRows rows_;
};

}  // namespace

bool are_group_queries(const AttentionCall& call, const AttentionKernels& kernels) {
  // One row reads keys and values faster in one stream, unless they are widened.
  const bool one = call.group * call.L == 1 && call.key.type != DataType::s8;
  return kernels.groups != nullptr && !one && call.E % kGroupWidth == 0 &&
         call.key.column_stride == 1 && call.value.column_stride == 1;
}

void attention_of_group_queries(const AttentionCall& call, const AttentionKernels& kernels) {
  const KeyCut cut(call);
  in_pieces(call, cut,
            [&](const AttentionSums* shared) { return GroupPieces(call, kernels, cut, shared); });
}

}  // namespace cpuaccel::kernels
