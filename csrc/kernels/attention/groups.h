// Inner loops for few queries whose heads share keys and values: several rows of queries meet each
// key while it is in registers.
//
// Scores lie key by key: row r of key s at scores[s * lanes + r], where `lanes` is the number of
// rows, rounded up to a power of two. The rows behind the last are anything finite.
#pragma once

#include <bit>
#include <cstdint>

#include "base/data_type.h"

namespace cpuaccel::kernels {

inline constexpr int64_t kGroupRows = 8;    // most rows of a call
inline constexpr int64_t kGroupKeys = 8;    // scores are written for a multiple of this many keys
inline constexpr int64_t kGroupWidth = 16;  // E is a multiple of it

constexpr int64_t group_lanes(int64_t rows) {
  return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(rows)));
}

// Rows of keys or values.
struct GroupMatrix {
  const void* data;
  DataType type;       // f32, bf16, f16 or s8
  int64_t row_stride;  // in elements
  int64_t rows, E;
};

struct AttentionGroups {
  // Whether query() and scores() take keys of this type as they are. Others are widened to f32.
  bool (*takes)(DataType type, int64_t E);
  // packed[0 .. lanes * E + 8) = scale * query, as scores() reads it for keys of `type`. For s8
  // these may be numbers of 16 bits and a scale for each row; NaN and infinity make it NaN.
  void (*query)(const float* query, int64_t stride, int64_t rows, int64_t lanes, int64_t E,
                float scale, DataType type, float* packed);
  // scores[s * lanes + r] = packed row r times key s. For keys behind the last up to a multiple of
  // kGroupKeys, scores are minus infinity.
  void (*scores)(const GroupMatrix& keys, const float* packed, int64_t lanes, float* scores);
  // scores[s * lanes + r] *= factors[s]
  void (*multiply)(float* scores, const float* factors, int64_t keys, int64_t lanes);
  // scores[i] = exp(scores[i] - max of its row), for `keys` keys, a multiple of kGroupKeys.
  void (*softmax)(float* scores, int64_t keys, int64_t lanes, float* max, float* sum);
  // dst[r * stride + e] += sum over s of weights[s * lanes + r] * value[s][e]
  void (*values)(const GroupMatrix& values, const float* weights, int64_t lanes, int64_t rows,
                 float* dst, int64_t stride);
  // dst[i * E + e] = src[i][e]. Null if keys of all types are taken.
  void (*widen)(const GroupMatrix& src, float* dst);
};

}  // namespace cpuaccel::kernels
