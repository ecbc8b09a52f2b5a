#include "kernels/attention/few_queries.h"

#include <algorithm>

#include "base/scratch_arrays.h"
#include "kernels/attention/arithmetic.h"
#include "kernels/attention/rows.h"
#include "kernels/gemm/blocking.h"
#include "kernels/gemm/pieces.h"

namespace cpuaccel::kernels {
namespace {

// With this many queries the products take as long as reading keys and values from memory.
constexpr int64_t kReading = 8;

// kKeys: keys of a head per block. kScores: scores that are stored (128 KiB, in L2) while the keys
// of other heads are read, before any values are. Each change from keys to values interrupts the
// memory stream for half a microsecond.
constexpr int64_t kKeys = 4096;
constexpr int64_t kScores = 1 << 15;

class Heads {
 public:
  Heads(const AttentionCall& call, const AttentionKernels& kernels)
      : call_(call),
        keys_(even_part(call.S, kKeys, 1)),
        score_stride_(round_up(keys_, 16)),
        most_(std::clamp<int64_t>(kScores / (call.L * score_stride_), 1, call.N * call.H)),
        scratch_(ScratchSlot::gemm_dst,
                 ScratchArrays::room<float>(most_ * call.L * score_stride_) +
                     ScratchArrays::room<float>(call.L * floats_.left_stride(call.E)) +
                     AttentionRows::room(call, most_ * call.L, keys_)),
        scores_(scratch_.take<float>(most_ * call.L * score_stride_)),
        query_(scratch_.take<float>(call.L * floats_.left_stride(call.E))),
        rows_(call, kernels, floats_.f32(), most_ * call.L, keys_, scratch_) {}

  void run(int64_t begin, int64_t end) const {
    for (int64_t first = begin; first < end; first += most_) {
      run_together(first, std::min(most_, end - first));
    }
  }

 private:
  void run_together(int64_t first, int64_t heads) const {
    rows_.begin(heads * call_.L);
    const int64_t end = call_.causal ? std::min(call_.S, call_.L) : call_.S;
    for (int64_t s0 = 0; s0 < end; s0 += keys_) {
      const int64_t keys = std::min(keys_, end - s0);
      for (int64_t i = 0; i < heads; ++i) {
        score(i, first + i, s0, keys);
      }
      for_each_row(first, heads, [&](int64_t row, const AttentionQuery& query) {
        rows_.softmax(row, query, scores(row), s0, keys);
      });
      for (int64_t i = 0; i < heads; ++i) {
        add_values(i, first + i, s0, keys);
      }
    }
    for_each_row(first, heads,
                 [&](int64_t row, const AttentionQuery& query) { rows_.finish(row, query); });
  }

  // Calls body(row, its query) for all rows of the heads that run together.
  template <typename Body>
  void for_each_row(int64_t first, int64_t heads, const Body& body) const {
    for (int64_t row = 0; row < heads * call_.L; ++row) {
      const int64_t head = first + row / call_.L;
      body(row, AttentionQuery{head / call_.H, head % call_.H, row % call_.L});
    }
  }

  float* scores(int64_t row) const { return scores_ + row * score_stride_; }

  const char* of_head(const AttentionMatrix& matrix, int64_t head, int64_t row) const {
    return at(matrix, head / call_.H, head % call_.H, row);
  }

  void score(int64_t i, int64_t head, int64_t s0, int64_t keys) const {
    const AttentionMatrix& query = call_.query;
    const auto left = floats_.left({of_head(query, head, 0), query.type, query.row_stride,
                                    query.column_stride, call_.L, call_.E},
                                   query_);
    floats_.f32().dot({call_.L,
                       keys,
                       call_.E,
                       left.data,
                       left.stride,
                       of_head(call_.key, head, s0),
                       call_.key.type,
                       call_.key.row_stride,
                       scores(i * call_.L),
                       score_stride_,
                       1,
                       1.0f,
                       false,
                       {}});
  }

  void add_values(int64_t i, int64_t head, int64_t s0, int64_t keys) const {
    for (int64_t l = 0; l < call_.L; l += kRowsMost) {
      const int64_t rows = std::min(kRowsMost, call_.L - l), first = i * call_.L + l;
      if (s0 == 0) {
        std::fill_n(rows_.dst(first), rows * rows_.stride(), 0.0f);
      }
      floats_.f32().rows({rows, call_.E, keys, scores(first), score_stride_,
                          of_head(call_.value, head, s0), call_.value.type, call_.value.row_stride,
                          rows_.dst(first), rows_.stride(), 1.0f});
    }
  }

  const AttentionCall& call_;
  const AttentionArithmetic floats_{false};
  const int64_t keys_, score_stride_;
  const int64_t most_;  // heads that run together
  ScratchArrays scratch_;
  float *const scores_, *const query_;
  const AttentionRows rows_;
};

}  // namespace

bool are_few_queries(const AttentionCall& call) {
  return call.L <= kAttentionFewQueries && call.key.column_stride == 1 &&
         call.value.column_stride == 1;
}

void attention_of_few_queries(const AttentionCall& call, const AttentionKernels& kernels) {
  const int64_t grain = gemm_grain(kReading, call.S, 2 * call.E);
  parallel_for(0, call.N * call.H, grain,
               [&](int64_t begin, int64_t end) { Heads(call, kernels).run(begin, end); });
}

}  // namespace cpuaccel::kernels
