// Rows of attention results accumulated over blocks of keys, with attention.h's running maximum and
// sum.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "base/scratch_arrays.h"
#include "kernels/attention/attention.h"
#include "kernels/attention/mask.h"
#include "kernels/attention/places.h"
#include "kernels/gemm/kernels.h"
#include "kernels/round_up.h"

namespace cpuaccel::kernels {

// A range of keys.
struct AttentionKeys {
  int64_t begin, end;

  int64_t count() const { return std::max<int64_t>(0, end - begin); }
};

// The keys that query l sees.
inline AttentionKeys seen_keys(const AttentionCall& call, int64_t l) {
  if (!call.causal) {
    return {0, call.S};
  }
  const int64_t last = l + call.past;
  const int64_t first = call.window > 0 ? last - call.window + 1 : 0;
  return {std::clamp<int64_t>(first, 0, call.S), std::clamp<int64_t>(last + 1, 0, call.S)};
}

// The keys that any of the queries l to l + count - 1 sees. It may be empty.
inline AttentionKeys seen_keys(const AttentionCall& call, int64_t l, int64_t count) {
  return {seen_keys(call, l).begin, seen_keys(call, l + count - 1).end};
}

// The sums of rows, which several threads may share: each row belongs to one of them.
struct AttentionSums {
  int64_t stride;
  float *dst, *max, *sum;

  static int64_t room(const AttentionCall& call, int64_t rows) {
    return ScratchArrays::room<float>(rows * round_up(call.E, 16)) +
           2 * ScratchArrays::room<float>(rows);
  }
  static AttentionSums from(const AttentionCall& call, int64_t rows, ScratchArrays& scratch) {
    const int64_t stride = round_up(call.E, 16);
    float* const dst = scratch.take<float>(rows * stride);
    float* const max = scratch.take<float>(rows);
    return {stride, dst, max, scratch.take<float>(rows)};
  }
};

class AttentionRows {
 public:
  // Scratch bytes for masks of `keys` keys.
  static int64_t room(const AttentionCall& call, int64_t keys) {
    return AttentionMask::room(call, keys);
  }

  AttentionRows(const AttentionCall& call, const AttentionKernels& kernels,
                const GemmKernels& floats, const AttentionSums& sums, int64_t keys,
                ScratchArrays& from)
      : call_(call),
        kernels_(kernels),
        floats_(floats),
        sums_(sums),
        mask_(call, kernels, floats, keys, from) {}

  // Sums over keys of weight times value, not divided by the sum of weights yet.
  float* dst(int64_t row) const { return sums_.dst + row * sums_.stride; }
  int64_t stride() const { return sums_.stride; }

  void begin(int64_t first, int64_t rows) const {
    std::fill_n(sums_.max + first, rows, -std::numeric_limits<float>::infinity());
    std::fill_n(sums_.sum + first, rows, 0.0f);
  }

  // The mask of a query for keys s0 and on, until the next call; null: none.
  const float* mask(const AttentionQuery& query, int64_t s0, int64_t keys) const {
    return mask_.row(query, s0, keys);
  }

  void set(int64_t row, float max, float sum) const {
    sums_.max[row] = max;
    sums_.sum[row] = sum;
  }

  // Turns the products of a row with `keys` into weights. Unless they are the row's `first`, it
  // rescales the row's sums to the new maximum. If `rounded` is given, the weights are written
  // there in bf16, followed by zeros up to a multiple of `together`.
  void softmax(int64_t row, const AttentionQuery& query, float* scores, const AttentionKeys& keys,
               bool first, uint16_t* rounded = nullptr, int64_t together = 1) const {
    const AttentionKeys all = seen_keys(call_, query.l);
    const int64_t count = keys.count();
    const int64_t from = std::clamp<int64_t>(all.begin - keys.begin, 0, count);
    const int64_t to = std::clamp<int64_t>(all.end - keys.begin, from, count);
    if (rounded != nullptr) {
      std::fill(rounded, rounded + from, uint16_t{0});
      std::fill(rounded + to, rounded + round_up(count, together), uint16_t{0});
    } else {
      std::fill(scores, scores + from, 0.0f);
      std::fill(scores + to, scores + count, 0.0f);
    }
    if (from == to) {
      return;
    }
    const float before = sums_.max[row];
    const SoftmaxRow of{scores + from, to - from, mask(query, keys.begin + from, to - from), before,
                        capped(scores + from, to - from, call_.scale)};
    const auto [max, sum] =
        rounded != nullptr ? kernels_.softmax_bf16(of, rounded + from) : kernels_.softmax(of);
    sums_.max[row] = max;
    if (first) {
      sums_.sum[row] = sum;
      return;
    }
    // If both are minus infinity, their difference would be NaN, and there is nothing to scale.
    const float factor = before == max ? 1.0f : std::exp(before - max);
    sums_.sum[row] = sums_.sum[row] * factor + sum;
    if (factor != 1.0f) {
      kernels_.scale(dst(row), call_.E, factor);
    }
  }

  // Applies the soft cap to scores, if there is one. Returns the factor that they still need.
  float capped(float* scores, int64_t count, float scale) const {
    if (call_.soft_cap == 0.0f) {
      return scale;
    }
    kernels_.cap(scores, count, scale, call_.soft_cap);
    return 1.0f;
  }

  // Adds the sums of other keys to those of a row.
  void add(int64_t row, int64_t other) const {
    const float max = std::max(sums_.max[row], sums_.max[other]);
    // If both are minus infinity, their sums are 0 or NaN.
    const auto factor = [max](float of) { return of == max ? 1.0f : std::exp(of - max); };
    const float kept = factor(sums_.max[row]), added = factor(sums_.max[other]);
    float* const to = dst(row);
    const float* const from = dst(other);
    for (int64_t e = 0; e < call_.E; ++e) {
      to[e] = to[e] * kept + from[e] * added;
    }
    sums_.max[row] = max;
    sums_.sum[row] = sums_.sum[row] * kept + sums_.sum[other] * added;
  }

  void finish(int64_t row, const AttentionQuery& query) const {
    const auto [n, h, l] = query;
    if (call_.sinks != nullptr) {
      add_sink(row, call_.sinks[h]);
    }
    const float sum = sums_.sum[row];
    kernels_.scale(dst(row), call_.E, sum == 0.0f ? 1.0f : 1.0f / sum);
    floats_.store(dst(row), call_.E, at(call_.dst, n, h, l), call_.dst.type);
    if (call_.logsumexp.data != nullptr) {
      *reinterpret_cast<float*>(at(call_.logsumexp, n, h, l)) =
          sum == 0.0f ? 0.0f : sums_.max[row] + std::log(sum);
    }
  }

 private:
  // Adds a score without a value to the sums of a row. Of a NaN and a number, the NaN stays.
  void add_sink(int64_t row, float sink) const {
    float &max = sums_.max[row], &sum = sums_.sum[row];
    if (sink == -std::numeric_limits<float>::infinity()) {
      return;
    }
    if (sink > max) {
      const float factor = std::exp(max - sink);
      kernels_.scale(dst(row), call_.E, factor);
      sum *= factor;
      max = sink;
    }
    sum += std::exp(sink - max);
  }

  const AttentionCall& call_;
  const AttentionKernels& kernels_;
  const GemmKernels& floats_;
  const AttentionSums sums_;
  const AttentionMask mask_;
};

}  // namespace cpuaccel::kernels
