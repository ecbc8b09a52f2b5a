// Clamps runs of source bytes to 127 for vpmaddubsw and records the excess: see QconvExcess.
#pragma once

#include <cstdint>

#include "base/scratch_arrays.h"
#include "kernels/qconv/qconv.h"

namespace cpuaccel::kernels {

// Whether `function` uses such runs (row x86_avx2) and looking for the excess may be worth it.
bool wants_low_runs(const QconvWeights& weights, QconvFunction* function);

class QconvLowRuns {
 public:
  // Bytes that the constructor takes from `memory`.
  static int64_t room(const QconvLayout& layout);

  QconvLowRuns(const QconvCall& call, ScratchArrays& memory);

  // Clamps the runs in `table`, which are those of the panel's pixels, to 127 and keeps the excess
  // for select(). Leaves the runs as they are if there is too much excess.
  void cut(const uint8_t** table, QconvPanel& panel);

  // Gives `panel` the excess of `part`, if the runs were cut.
  void select(int64_t part, QconvPanel& panel) const;

 private:
  struct Range {
    const uint8_t *begin = nullptr, *end = nullptr;
  };

  struct HighRun {  // a run that may have bytes above 127, in any part
    const uint8_t* run;
    int32_t pixel, tap;
    bool has_excess;
  };

  bool mark(const QconvPanel& panel);
  void mark_bytes(const uint8_t* begin, const uint8_t* end);
  bool may_be_high(const uint8_t* run) const;
  void find_high_runs(const uint8_t* const* table, int64_t count);
  bool find_excess(int64_t count);

  const QconvCall& call_;
  const QconvLayout& layout_;
  const uint8_t** whole_table_;
  QconvExcess* excess_;
  int32_t* first_;  // of each part, as QconvPanel::excess_first
  HighRun* high_runs_;
  int64_t high_count_ = 0;
  uint8_t* marks_;  // one per kBlock bytes from marked_.begin: whether any of them is above 127
  uint8_t* low_runs_;
  Range marked_;
  bool is_low_ = false;
};

}  // namespace cpuaccel::kernels
