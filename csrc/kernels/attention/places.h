// Where the rows of attention's tensors are in memory.
#pragma once

#include <cstdint>

#include "kernels/attention/attention.h"

namespace cpuaccel::kernels {

// The head and query of a row.
struct AttentionQuery {
  int64_t n, h, l;
};

inline const char* at(const AttentionMatrix& matrix, int64_t n, int64_t h, int64_t row) {
  const int64_t index = n * matrix.batch_stride + h * matrix.head_stride + row * matrix.row_stride;
  return static_cast<const char*>(matrix.data) + index * data_type_size(matrix.type);
}

inline char* at(const AttentionDst& dst, int64_t n, int64_t h, int64_t row) {
  const int64_t index = n * dst.batch_stride + h * dst.head_stride + row * dst.row_stride;
  return static_cast<char*>(dst.data) + index * data_type_size(dst.type);
}

}  // namespace cpuaccel::kernels
