// Several arrays in one block of scratch memory, each aligned to a cache line.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/scratch.h"

namespace cpuaccel {

class ScratchArrays {
 public:
  // Bytes that `count` elements take.
  template <typename T>
  static constexpr int64_t room(int64_t count) {
    return (count * static_cast<int64_t>(sizeof(T)) + kLine - 1) / kLine * kLine;
  }

  // `bytes`: the sum of room() of all arrays that will be taken.
  ScratchArrays(ScratchSlot slot, int64_t bytes)
      : next_(static_cast<std::byte*>(scratch(slot, static_cast<size_t>(bytes)))) {}

  template <typename T>
  T* take(int64_t count) {
    auto* const piece = reinterpret_cast<T*>(next_);
    next_ += room<T>(count);
    return piece;
  }

 private:
  static constexpr int64_t kLine = 64;

  std::byte* next_;
};

}  // namespace cpuaccel
