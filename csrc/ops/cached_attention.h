// Attention to a layer's cache, after the keys and values of a call were appended to it. The sum of
// attention is in kernels/attention.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "kernels/attention/attention.h"

namespace cpuaccel::ops {

// The cache of one layer. Positions from `begin` to `used` are held, and T more are appended.
struct LayerCache {
  at::Tensor keys, values;              // N x G x capacity x E: the type of the keys, or int8
  at::Tensor key_scales, value_scales;  // N x G x capacity, f32, if the cache is int8
  int64_t begin = 0, used = 0;
  float scale = 1.0f;
  float soft_cap = 0.0f;  // 0: none
  at::Tensor sinks;       // H, f32, bf16 or f16; undefined: none
};

// Which positions the queries of a call see.
struct CallMask {
  at::Tensor added;     // f32, broadcasts to N x H x T x (used + T - begin); undefined: none
  int64_t window = -1;  // 0: positions up to used + t; more: the last of these; -1: all
};

// The queries of a call, the keys and values that it appends, and its results.
struct CallHeads {
  int64_t N = 0, H = 0, G = 0, T = 0, E = 0;   // G divides H
  kernels::AttentionMatrix query, key, value;  // of one type; elements of each query are adjacent
  kernels::AttentionDst dst;
  bool appends = true;  // false: there are no keys and values, and the cache stays as it is

  int64_t added() const { return appends ? T : 0; }
};

// Whether the cache takes these heads: null, or what does not match.
const char* mismatch(const CallHeads& heads, const LayerCache& cache, const CallMask& mask);

// Appends and attends. Nothing mismatches.
void attend_and_keep(const CallHeads& heads, const LayerCache& cache, const CallMask& mask);

}  // namespace cpuaccel::ops
