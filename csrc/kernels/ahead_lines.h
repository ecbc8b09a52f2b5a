// Memory that is wanted next, asked for by the steps of a loop that computes meanwhile. Asked for
// all at once, it would have the loop wait: a core waits for some sixteen lines at most.
#pragma once

#include <cstdint>

#include "kernels/inline.h"
#include "kernels/round_up.h"

namespace cpuaccel::kernels {
namespace {

constexpr int64_t kCacheLine = 64;

// What a loop asks for: at each turn so many lines, from one that is `step` bytes behind the last
// turn's.
struct AheadLines {
  const char* at = nullptr;
  int64_t step = 0, lines = 0;

  CPUACCEL_INLINE void ask() {
    for (int64_t i = 0; i < lines; ++i) {
      __builtin_prefetch(at + i * kCacheLine, 0, 2);
    }
    at += step;
  }
};

// `bytes` from `wanted` on, shared out evenly over some loops of `turns` turns. If the first ones
// asked for all of it, what they read themselves would have to wait behind that.
class AheadWalk {
 public:
  AheadWalk(const void* wanted, int64_t bytes, int64_t turns, int64_t loops)
      : at_(static_cast<const char*>(wanted)),
        // Not rounded up alone: where a share is whole lines, the next turn's first one is asked
        // for too, which is 2 % faster where two tiles ask for all.
        step_(bytes > 0 && turns > 0 ? bytes / (turns * loops) + 1 : 0),
        lines_(divide_up(step_, kCacheLine)),
        loop_(turns * step_) {}

  // What the next loop asks for.
  CPUACCEL_INLINE AheadLines next() {
    const AheadLines lines{at_, step_, lines_};
    at_ += loop_;
    return lines;
  }

 private:
  const char* at_;
  int64_t step_, lines_, loop_;
};

}  // namespace
}  // namespace cpuaccel::kernels
