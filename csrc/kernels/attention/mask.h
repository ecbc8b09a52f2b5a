// The mask of attention, as rows of floats: read in place, converted, or added up from two parts.
#pragma once

#include <cstdint>

#include "base/scratch_arrays.h"
#include "kernels/attention/attention.h"
#include "kernels/attention/places.h"
#include "kernels/gemm/kernels.h"
#include "kernels/round_up.h"

namespace cpuaccel::kernels {

class AttentionMask {
 public:
  // Scratch bytes for rows of `keys` keys.
  static int64_t room(const AttentionCall& call, int64_t keys) {
    return ScratchArrays::room<float>(row_room(call, keys)) +
           ScratchArrays::room<float>(parts(call, keys)) + ScratchArrays::room<float>(width(call));
  }

  AttentionMask(const AttentionCall& call, const AttentionKernels& kernels,
                const GemmKernels& floats, int64_t keys, ScratchArrays& from)
      : call_(call),
        kernels_(kernels),
        floats_(floats),
        row_(from.take<float>(row_room(call, keys))),
        parts_(from.take<float>(parts(call, keys))),
        columns_(from.take<float>(width(call))) {}

  // The mask of a query for keys s0 and on, until the next call; null: none.
  const float* row(const AttentionQuery& query, int64_t s0, int64_t keys) const {
    const AttentionMatrix& mask = call_.mask;
    if (mask.data == nullptr) {
      return nullptr;
    }
    if (call_.mask_width != 0) {
      return sum(query, s0, keys);
    }
    const char* data = from(mask, query, s0);
    if (mask.type == DataType::f32 && mask.column_stride == 1) {
      return reinterpret_cast<const float*>(data);
    }
    load(mask, data, keys, row_);
    return row_;
  }

 private:
  // Floats behind a row that outer_sum may write, and behind columns that it may read.
  static constexpr int64_t kSlack = 16;

  static int64_t row_room(const AttentionCall& call, int64_t keys) {
    return keys + 2 * call.mask_width + kSlack;
  }
  // The most elements of `mask` that belong to `keys` keys, if it has a width.
  static int64_t parts(const AttentionCall& call, int64_t keys) {
    return call.mask_width == 0 ? 0 : keys / call.mask_width + 2;
  }
  static int64_t width(const AttentionCall& call) {
    return call.mask_width == 0 ? 0 : round_up(call.mask_width, kSlack);
  }

  static const char* from(const AttentionMatrix& matrix, const AttentionQuery& query,
                          int64_t column) {
    return at(matrix, query.n, query.h, query.l) +
           column * matrix.column_stride * data_type_size(matrix.type);
  }

  void load(const AttentionMatrix& matrix, const char* data, int64_t count, float* dst) const {
    floats_.load({data, matrix.type, 0, matrix.column_stride, 1, count, dst, count});
  }

  const float* sum(const AttentionQuery& query, int64_t s0, int64_t keys) const {
    const int64_t width = call_.mask_width;
    const int64_t first = s0 / width, last = (s0 + keys - 1) / width;
    load(call_.mask, from(call_.mask, query, first), last - first + 1, parts_);
    load(call_.mask_columns, from(call_.mask_columns, query, 0), width, columns_);
    kernels_.outer_sum(parts_, last - first + 1, columns_, width, row_);
    return row_ + (s0 - first * width);
  }

  const AttentionCall& call_;
  const AttentionKernels& kernels_;
  const GemmKernels& floats_;
  float *const row_, *const parts_, *const columns_;
};

}  // namespace cpuaccel::kernels
