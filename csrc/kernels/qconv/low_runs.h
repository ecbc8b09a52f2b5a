// Runs of source bytes that are 127 at most, for vpmaddubsw: see QconvExcess.
#pragma once

#include <cstdint>

#include "base/scratch_pieces.h"
#include "kernels/qconv/qconv.h"

namespace cpuaccel::kernels {

// Whether the row is one for such runs, and looking for what is above that may be worth it.
bool wants_low_runs(const QconvWeights& weights, QconvFunction* function);

class QconvLowRuns {
 public:
  // What it takes of `memory`.
  static int64_t room(const QconvLayout& layout);

  QconvLowRuns(const QconvCall& call, ScratchPieces& memory);

  // Takes what is above 127 out of the runs of `table`, which are those of the panel's pixels, and
  // says so to `panel`; leaves all as it is where that is much.
  void cut(const uint8_t** table, QconvPanel& panel);

 private:
  struct Range {
    const uint8_t *begin = nullptr, *end = nullptr;
  };

  bool mark(const QconvPanel& panel);
  void mark_bytes(const uint8_t* begin, const uint8_t* end);
  bool may_be_high(const uint8_t* run) const;
  bool find_excess(const uint8_t* const* table, int64_t count);

  const QconvCall& call_;
  const QconvLayout& layout_;
  const uint8_t** whole_table_;
  QconvExcess* excess_;
  int32_t* first_;
  uint8_t* marks_;  // by kBlock bytes from marked_.begin: whether one of them is above 127
  uint8_t* low_runs_;
  Range marked_;
};

}  // namespace cpuaccel::kernels
