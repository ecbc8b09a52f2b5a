// How attention with few queries is cut into pieces of work: a head's keys, or a part of them.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/parallel.h"
#include "base/scratch_arrays.h"
#include "kernels/attention/attention.h"
#include "kernels/attention/rows.h"
#include "kernels/gemm/blocking.h"
#include "kernels/round_up.h"

namespace cpuaccel::kernels {

// Keys of a piece of work, so that threads share the keys of a head.
inline constexpr int64_t kPieceKeys = 1024;

// With this many queries the products take as long as reading keys and values from memory.
inline constexpr int64_t kReadingQueries = 8;

// How rows, the queries of a group of heads, and keys are cut. It does not depend on the number of
// threads.
struct KeyCut {
  explicit KeyCut(const AttentionCall& call)
      : rows(call.group * call.L),
        heads(call.N * call.H / call.group),
        seen(seen_keys(call, 0, call.L)),
        keys(even_part(std::max<int64_t>(seen.count(), 1), kPieceKeys, 1)),
        parts(std::max<int64_t>(divide_up(seen.count(), keys), 1)) {}

  int64_t rows, heads;
  AttentionKeys seen;
  int64_t keys;   // of a piece
  int64_t parts;  // pieces of a head

  AttentionKeys keys_of(int64_t part) const {
    const int64_t begin = seen.begin + part * keys;
    return {begin, std::min(begin + keys, seen.end)};
  }

  // Row `row` of a head of keys.
  AttentionQuery query_of(const AttentionCall& call, int64_t head, int64_t row) const {
    const int64_t of = call.H / call.group;
    return {head / of, head % of * call.group + row / call.L, row % call.L};
  }

  // Adds up the pieces of each head. Row r of a piece is row piece * rows + r.
  void merge(const AttentionCall& call, const AttentionRows& all) const {
    for (int64_t head = 0; head < heads; ++head) {
      const int64_t first = head * parts * rows;
      for (int64_t row = 0; row < rows; ++row) {
        for (int64_t part = 1; part < parts; ++part) {
          all.add(first + row, first + part * rows + row);
        }
        all.finish(first + row, query_of(call, head, row));
      }
    }
  }
};

// Runs all pieces on all threads. make(sums) returns an object with run(first piece, last + 1) and
// merge(). `sums` are those of all pieces if heads are cut into parts, else null.
template <typename Make>
void in_pieces(const AttentionCall& call, const KeyCut& cut, const Make& make) {
  const int64_t pieces = cut.heads * cut.parts;
  const int64_t grain = gemm_grain(kReadingQueries, cut.keys, 2 * call.E);
  if (cut.parts == 1) {
    parallel_for(0, pieces, grain,
                 [&](int64_t begin, int64_t end) { make(nullptr).run(begin, end); });
    return;
  }
  ScratchArrays scratch(ScratchSlot::accumulator, AttentionSums::room(call, pieces * cut.rows));
  const auto sums = AttentionSums::from(call, pieces * cut.rows, scratch);
  parallel_for(0, pieces, grain, [&](int64_t begin, int64_t end) { make(&sums).run(begin, end); });
  make(&sums).merge();
}

}  // namespace cpuaccel::kernels
