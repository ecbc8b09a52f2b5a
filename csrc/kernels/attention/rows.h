// Rows of attention results accumulated over blocks of keys, with attention.h's running maximum and
// sum.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "base/scratch_arrays.h"
#include "kernels/attention/attention.h"
#include "kernels/gemm/kernels.h"
#include "kernels/round_up.h"

namespace cpuaccel::kernels {

inline const char* at(const AttentionMatrix& matrix, int64_t n, int64_t h, int64_t row) {
  const int64_t index = n * matrix.batch_stride + h * matrix.head_stride + row * matrix.row_stride;
  return static_cast<const char*>(matrix.data) + index * data_type_size(matrix.type);
}

inline char* at(const AttentionDst& dst, int64_t n, int64_t h, int64_t row) {
  const int64_t index = n * dst.batch_stride + h * dst.head_stride + row * dst.row_stride;
  return static_cast<char*>(dst.data) + index * data_type_size(dst.type);
}

// The head and query of a row.
struct AttentionQuery {
  int64_t n, h, l;
};

class AttentionRows {
 public:
  // Scratch bytes for `rows` rows and blocks of `keys` keys.
  static int64_t room(const AttentionCall& call, int64_t rows, int64_t keys) {
    return ScratchArrays::room<float>(rows * round_up(call.E, 16)) +
           2 * ScratchArrays::room<float>(rows) + ScratchArrays::room<float>(keys);
  }

  AttentionRows(const AttentionCall& call, const AttentionKernels& kernels,
                const GemmKernels& floats, int64_t rows, int64_t keys, ScratchArrays& from)
      : call_(call),
        kernels_(kernels),
        floats_(floats),
        stride_(round_up(call.E, 16)),
        dst_(from.take<float>(rows * stride_)),
        max_(from.take<float>(rows)),
        sum_(from.take<float>(rows)),
        mask_(from.take<float>(keys)) {}

  // Sums over keys of weight times value, not divided by the sum of weights yet.
  float* dst(int64_t row) const { return dst_ + row * stride_; }
  int64_t stride() const { return stride_; }

  void begin(int64_t rows) const {
    std::fill_n(max_, rows, -std::numeric_limits<float>::infinity());
    std::fill_n(sum_, rows, 0.0f);
  }

  // Turns the products of a row with keys s0 and on into weights, and rescales the row's sums to
  // the new maximum. If `rounded` is given, the weights are written there in bf16, followed by
  // zeros up to a multiple of `together`.
  void softmax(int64_t row, const AttentionQuery& query, float* scores, int64_t s0, int64_t keys,
               uint16_t* rounded = nullptr, int64_t together = 1) const {
    const int64_t seen = call_.causal ? std::clamp<int64_t>(query.l + 1 - s0, 0, keys) : keys;
    if (rounded != nullptr) {
      std::fill(rounded + seen, rounded + round_up(keys, together), uint16_t{0});
    } else {
      std::fill(scores + seen, scores + keys, 0.0f);
    }
    if (seen == 0) {
      return;
    }
    const float before = max_[row];
    const SoftmaxRow of{scores, seen, mask(query, s0, seen), before, call_.scale};
    const auto [max, sum] =
        rounded != nullptr ? kernels_.softmax_bf16(of, rounded) : kernels_.softmax(of);
    max_[row] = max;
    if (s0 == 0) {
      sum_[row] = sum;
      return;
    }
    // If both are minus infinity, their difference would be NaN, and there is nothing to scale.
    const float factor = before == max ? 1.0f : std::exp(before - max);
    sum_[row] = sum_[row] * factor + sum;
    if (factor != 1.0f) {
      kernels_.scale(dst(row), call_.E, factor);
    }
  }

  void finish(int64_t row, const AttentionQuery& query) const {
    const auto [n, h, l] = query;
    const float sum = sum_[row];
    kernels_.scale(dst(row), call_.E, sum == 0.0f ? 1.0f : 1.0f / sum);
    floats_.store(dst(row), call_.E, at(call_.dst, n, h, l), call_.dst.type);
    if (call_.logsumexp.data != nullptr) {
      *reinterpret_cast<float*>(at(call_.logsumexp, n, h, l)) =
          sum == 0.0f ? 0.0f : max_[row] + std::log(sum);
    }
  }

 private:
  const float* mask(const AttentionQuery& query, int64_t s0, int64_t keys) const {
    const AttentionMatrix& mask = call_.mask;
    if (mask.data == nullptr) {
      return nullptr;
    }
    const char* data =
        at(mask, query.n, query.h, query.l) + s0 * mask.column_stride * data_type_size(mask.type);
    if (mask.type == DataType::f32 && mask.column_stride == 1) {
      return reinterpret_cast<const float*>(data);
    }
    floats_.load({data, mask.type, 0, mask.column_stride, 1, keys, mask_, keys});
    return mask_;
  }

  const AttentionCall& call_;
  const AttentionKernels& kernels_;
  const GemmKernels& floats_;
  const int64_t stride_;
  float *const dst_, *const max_, *const sum_, *const mask_;
};

}  // namespace cpuaccel::kernels
