// Memory that is wanted next, asked for by the steps of a loop that computes meanwhile. Asked for
// all at once, it would have the loop wait: a core waits for a few dozen lines at most.
#pragma once

#include <cstdint>

#include "kernels/inline.h"

namespace cpuaccel::kernels {
namespace {

constexpr int64_t kCacheLine = 64;

// Lines that a loop asks for, none if `step` is 0: two a step, of which the second is the next
// step's first where those are a line apart. It costs less than the register for what lies between.
struct AheadLines {
  const char* at = nullptr;
  int64_t step = 0;  // bytes from a step's first line to the next's

  CPUACCEL_INLINE void ask() {
    if (step != 0) {
      __builtin_prefetch(at, 0, 2);
      __builtin_prefetch(at + kCacheLine, 0, 2);
      at += step;
    }
  }
};

// `bytes` from `wanted` on, shared out over the first of some loops of `steps` steps: a line a
// step, or two where that would leave some.
class AheadWalk {
 public:
  AheadWalk(const void* wanted, int64_t bytes, int64_t steps, int64_t loops)
      : at_(static_cast<const char*>(wanted)),
        left_(bytes),
        step_(bytes <= loops * steps * kCacheLine ? kCacheLine : 2 * kCacheLine),
        loop_(steps * step_) {}

  // What the next loop asks for.
  CPUACCEL_INLINE AheadLines next() {
    if (left_ <= 0) {
      return {};
    }
    const AheadLines lines{at_, step_};
    at_ += loop_;
    left_ -= loop_;
    return lines;
  }

 private:
  const char* at_;
  int64_t left_, step_, loop_;
};

}  // namespace
}  // namespace cpuaccel::kernels
