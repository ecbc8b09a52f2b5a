// Copies a row from front to back, for any class V of kernels/byte_vectors. Included by ISA
// sources.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/gather/gather.h"

namespace cpuaccel::kernels {
namespace {

template <typename V>
void copy_row(std::byte* dst_row, const std::byte* src_row, int64_t bytes) {
  auto* dst = reinterpret_cast<uint8_t*>(dst_row);
  const auto* src = reinterpret_cast<const uint8_t*>(src_row);
  constexpr int kUnroll = 4;
  int64_t at = 0;
  for (; at + kUnroll * V::kBytes <= bytes; at += kUnroll * V::kBytes) {
    typename V::Vector piece[kUnroll];
    for (int i = 0; i < kUnroll; ++i) {
      piece[i] = V::load(src + at + i * V::kBytes);
    }
    for (int i = 0; i < kUnroll; ++i) {
      V::store(dst + at + i * V::kBytes, piece[i]);
    }
  }
  for (; at + V::kBytes <= bytes; at += V::kBytes) {
    V::store(dst + at, V::load(src + at));
  }
  if (at < bytes) {
    V::store(dst + bytes - V::kBytes, V::load(src + bytes - V::kBytes));
  }
}

}  // namespace
}  // namespace cpuaccel::kernels
