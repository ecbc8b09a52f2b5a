// Prefetches a block of memory to L2, a part at a time.
#pragma once

#include <cstdint>

#include "kernels/gemm/kernels.h"
#include "kernels/inline.h"

namespace cpuaccel::kernels {
namespace {

// Splits a block into `parts` calls, each of which prefetches some of its lines.
class PrefetchWalk {
 public:
  PrefetchWalk(const GemmPrefetch& block, int64_t parts)
      : row_(block.data),
        stride_(block.stride),
        bytes_(block.bytes),
        rows_(block.rows),
        lines_((rows_ * ((bytes_ + kLine - 1) / kLine) + parts - 1) / parts) {}

  CPUACCEL_INLINE void operator()() {
    for (int64_t line = 0; line < lines_ && rows_ > 0; ++line) {
      __builtin_prefetch(row_ + at_, 0, 2);
      at_ += kLine;
      if (at_ >= bytes_) {
        at_ = 0;
        row_ += stride_;
        --rows_;
      }
    }
  }

 private:
  static constexpr int64_t kLine = 64;
  const char* row_;
  int64_t stride_, bytes_, rows_, lines_;
  int64_t at_ = 0;
};

}  // namespace
}  // namespace cpuaccel::kernels
