// Memory that is wanted next, asked for by the steps of a loop that computes meanwhile. Asked for
// all at once, it would have the loop wait: a core waits for a few dozen lines at most.
#pragma once

#include <cstdint>

#include "kernels/inline.h"

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

// `bytes` from `wanted` on, shared out evenly over some loops of `turns` turns: where the first
// ones ask for all of it, they wait for it, as lines of their own do behind those.
class AheadWalk {
 public:
  AheadWalk(const void* wanted, int64_t bytes, int64_t turns, int64_t loops)
      : at_(static_cast<const char*>(wanted)),
        step_(bytes > 0 && turns > 0 ? bytes / (turns * loops) + 1 : 0),
        lines_((step_ + kCacheLine - 1) / kCacheLine),
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
