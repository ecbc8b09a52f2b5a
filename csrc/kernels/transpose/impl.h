// Loops of the transpose kernels, templated on a type of blocks. Included by ISA files.
//
// Block has kM and kK; of() transposes kM rows of kK bytes. Its Rows2, Rows3 and Rows4 interleave
// that many rows (kM of them), and their columns(src, stride, dst) handles kK columns.
#pragma once

#include <cstring>

#include "kernels/transpose/transpose.h"

namespace cpuaccel::kernels {
namespace {

// Transposes m <= kM rows of k <= kK bytes by copying them to a whole block.
template <typename Block>
void transpose_part(const uint8_t* src, int64_t src_stride, uint8_t* dst, int64_t dst_stride,
                    int64_t m, int64_t k) {
  alignas(32) uint8_t from[Block::kM * Block::kK] = {};
  alignas(32) uint8_t to[Block::kK * Block::kM];
  for (int64_t i = 0; i < m; ++i) {
    std::memcpy(from + i * Block::kK, src + i * src_stride, static_cast<size_t>(k));
  }
  Block::of(from, Block::kK, to, Block::kM);
  for (int64_t i = 0; i < k; ++i) {
    std::memcpy(dst + i * dst_stride, to + i * Block::kM, static_cast<size_t>(m));
  }
}

// Blocks from the start, and a last one that ends with the matrix and may overlap the one before.
template <typename Block>
void transpose_matrix(const Transpose& shape, const uint8_t* src, uint8_t* dst) {
  constexpr int64_t kM = Block::kM, kK = Block::kK;
  const bool whole = shape.M >= kM && shape.K >= kK;
  for (int64_t next_m = 0; next_m < shape.M; next_m += kM) {
    const int64_t m = whole && next_m + kM > shape.M ? shape.M - kM : next_m;
    for (int64_t next_k = 0; next_k < shape.K; next_k += kK) {
      const int64_t k = whole && next_k + kK > shape.K ? shape.K - kK : next_k;
      const uint8_t* from = src + m * shape.src_stride + k;
      uint8_t* to = dst + k * shape.dst_stride + m;
      if (whole) {
        Block::of(from, shape.src_stride, to, shape.dst_stride);
      } else {
        const int64_t left_m = shape.M - m;
        const int64_t left_k = shape.K - k;
        transpose_part<Block>(from, shape.src_stride, to, shape.dst_stride,
                              left_m < kM ? left_m : kM, left_k < kK ? left_k : kK);
      }
    }
  }
}

template <typename Rows, int64_t kK>
void transpose_rows(const Transpose& shape, const uint8_t* src, uint8_t* dst) {
  for (int64_t b = 0; b < shape.B; ++b, src += shape.src_batch, dst += shape.dst_batch) {
    for (int64_t next = 0; next < shape.K; next += kK) {
      const int64_t k = next + kK > shape.K ? shape.K - kK : next;
      Rows::columns(src + k, shape.src_stride, dst + k * Rows::kM);
    }
  }
}

template <typename Block>
void transpose_by(const Transpose& shape, const uint8_t* src, uint8_t* dst) {
  if (shape.dst_stride == shape.M && shape.K >= Block::kK) {
    switch (shape.M) {
      case 2:
        return transpose_rows<typename Block::Rows2, Block::kK>(shape, src, dst);
      case 3:
        return transpose_rows<typename Block::Rows3, Block::kK>(shape, src, dst);
      case 4:
        return transpose_rows<typename Block::Rows4, Block::kK>(shape, src, dst);
      default:
        break;
    }
  }
  for (int64_t b = 0; b < shape.B; ++b) {
    transpose_matrix<Block>(shape, src + b * shape.src_batch, dst + b * shape.dst_batch);
  }
}

}  // namespace
}  // namespace cpuaccel::kernels
