// The keys or values of one attention head as packed weights of a 1x1 convolution, in memory that
// the caller owns.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/qconv/qconv.h"

namespace cpuaccel::kernels {

// Bytes are stored minus 128, because the second operand of the products is s8.
inline constexpr int kSignBit = 0x80;

class QattentionOperand {
 public:
  // Bytes of memory for `columns` columns, each a sum of `depth` products.
  static int64_t bytes(int64_t depth, int64_t columns) {
    return qconv_packed_bytes(shape(depth, columns));
  }

  // `memory`: 64-byte aligned, bytes() large, valid for the lifetime of this object.
  QattentionOperand(int64_t depth, int64_t columns, std::byte* memory);
  ~QattentionOperand();
  QattentionOperand(const QattentionOperand&) = delete;
  QattentionOperand& operator=(const QattentionOperand&) = delete;

  // Packs columns: element k of column c is src[c * column_stride + k].
  void pack_columns(const uint8_t* src, int64_t column_stride);
  // Packs rows: element c of row k is src[k * row_stride + c].
  void pack_rows(const uint8_t* src, int64_t row_stride);

  const QconvWeights& weights() const { return weights_; }

 private:
  static QconvShape shape(int64_t depth, int64_t columns) { return {.IC = depth, .OC = columns}; }
  int8_t* block(int64_t index) {
    return reinterpret_cast<int8_t*>(weights_.values.get()) + index * weights_.layout.block_bytes();
  }
  int32_t* sums() { return reinterpret_cast<int32_t*>(weights_.channel_sums.get()); }

  int64_t depth_, columns_;
  QconvWeights weights_;  // its memory belongs to the caller
};

}  // namespace cpuaccel::kernels
