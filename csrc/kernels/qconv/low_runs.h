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

  // Clamps the runs in `table`, which are those of the panel's pixels, to 127 and stores the excess
  // in `panel`. Leaves the runs as they are if there is too much excess.
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
  uint8_t* marks_;  // one per kBlock bytes from marked_.begin: whether any of them is above 127
  uint8_t* low_runs_;
  Range marked_;
};

}  // namespace cpuaccel::kernels
