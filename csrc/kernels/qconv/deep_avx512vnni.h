// qconv for several taps of many channels with AVX512-VNNI, in images of few pixels: a panel keeps
// its sums in L1 and takes the weights in chunks, which are read from L2 or L3 once. Included by
// the ISA source only.
//
// impl.h keeps the sums of a tile of pixels in registers, so each tile reads all weights of two
// vectors of channels: 147 KB of a 3x3 layer of 512 channels, which do not fit L1.
// Bound: as in qconv.h, and the weights from L3 once. 3x3 512->512 at 7x7 takes 372 us on an
// Emerald Rapids core that reads 11 GB/s from L3: 302 us by dot products, 214 by weights.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "kernels/dot4/avx512vnni.h"
#include "kernels/gemm/unroll.h"
#include "kernels/inline.h"
#include "kernels/qconv/even_tiles.h"
#include "kernels/qconv/impl.h"
#include "kernels/qconv/qconv.h"
#include "kernels/spread_prefetch.h"

namespace cpuaccel::kernels {
namespace {

struct QconvDeep : QconvLoop<Avx512VnniDot4> {
  using V = Avx512VnniDot4;
  using Int = V::Int;
  static constexpr int kTallest = 8;
  static constexpr int64_t kChunk = 128;  // steps whose weights stay in L1: 8 KiB for each vector

  void run_deep() const {
    const int64_t last = last_vector();
    int64_t v = panel.block;
    for (; v + 2 <= last; v += 2) {
      two_vectors(v, v + 4 <= last);
    }
    if (v < last) {
      pixels<1, false>(v);
    }
  }

  // All pixels of vectors v and v + 1.
  void two_vectors(int64_t v, bool has_next) const {
    alignas(64) Int sums[2][kQconvPanel];
    const int32_t* weight_sums = call.weights->sums(0);
    for (int j = 0; j < 2; ++j) {
      const Int start =
          V::multiply(V::set1(-call.src_zero_point), V::load(weight_sums + (v + j) * V::kLanes));
      for (int64_t i = 0; i < kQconvPanel; ++i) {
        sums[j][i] = start;
      }
    }
    const int8_t* w = call.weights->block(0, v);
    const int64_t vector_bytes = layout.block_bytes();
    for (int64_t tap = 0; tap < layout.taps; ++tap) {
      for (int64_t step = 0; step < layout.steps; step += kChunk) {
        const int64_t left = layout.steps - step, count = left < kChunk ? left : kChunk;
        const bool at_end = tap + 1 == layout.taps && count == left;
        // The weights of the next chunk, which may be those of the next vectors.
        const int8_t* next = at_end && !has_next
                                 ? nullptr
                                 : w + count * kQconvStepBytes + (at_end ? vector_bytes : 0);
        chunk(tap, step, count, w, vector_bytes, next, sums);
        w += count * kQconvStepBytes;
      }
    }
    for (int64_t pixel = 0; pixel < panel.pixels; pixel += kTallest) {
      Int acc[2 * kTallest];
      CPUACCEL_UNROLL
      for (int i = 0; i < 2 * kTallest; ++i) {
        acc[i] = sums[i / kTallest][pixel + i % kTallest];
      }
      finish<kTallest, 2>(pixel, v, acc);
    }
  }

  // Adds `count` steps of a tap to the sums of all pixels. `next`: the weights that the next chunk
  // reads, or null.
  CPUACCEL_INLINE void chunk(int64_t tap, int64_t step, int64_t count, const int8_t* w,
                             int64_t vector_bytes, const int8_t* next,
                             Int (*sums)[kQconvPanel]) const {
    const EvenTiles tiles(panel.pixels, kTallest);  // five to eight pixels
    const int64_t half =
        (tiles.count + 1) / 2;  // tiles that ask for the next weights of one vector
    const int64_t wanted = next != nullptr ? kChunk * kQconvStepBytes : 0;
    SpreadPrefetchLoops ahead[2] = {
        {next, wanted, count, half},
        {next != nullptr ? next + vector_bytes : nullptr, wanted, count, tiles.count - half}};
    const uint8_t* const* runs = panel.runs + tap * kQconvPanel;
    for (int64_t t = 0, pixel = 0; t < tiles.count; ++t) {
      const int64_t height = tiles.height(t);
      const SpreadPrefetch asked = ahead[t < half ? 0 : 1].next();
      tile_of(height, runs + pixel, step, count, w, vector_bytes, asked, &sums[0][pixel],
              &sums[1][pixel]);
      pixel += height;
    }
  }

  CPUACCEL_INLINE void tile_of(int64_t height, const uint8_t* const* runs, int64_t step,
                               int64_t count, const int8_t* w, int64_t vector_bytes,
                               const SpreadPrefetch& ahead, Int* sums0, Int* sums1) const {
    switch (height) {
      case 5:
        return steps_of<5>(runs, step, count, w, vector_bytes, ahead, sums0, sums1);
      case 6:
        return steps_of<6>(runs, step, count, w, vector_bytes, ahead, sums0, sums1);
      case 7:
        return steps_of<7>(runs, step, count, w, vector_bytes, ahead, sums0, sums1);
      default:
        return steps_of<8>(runs, step, count, w, vector_bytes, ahead, sums0, sums1);
    }
  }

  template <int kHeight>
  [[gnu::noinline]] static void steps_of(const uint8_t* const* runs, int64_t step, int64_t count,
                                         const int8_t* w, int64_t vector_bytes,
                                         SpreadPrefetch ahead, Int* sums0, Int* sums1) {
    Int acc[2][kHeight];
    const uint8_t* src[kHeight];
    CPUACCEL_UNROLL
    for (int i = 0; i < kHeight; ++i) {
      acc[0][i] = sums0[i];
      acc[1][i] = sums1[i];
      src[i] = runs[i] + step * 4;
    }
    for (int64_t at = 0; at < count; ++at) {
      ahead.ask();
      const Int w0 = V::load(w), w1 = V::load(w + vector_bytes);
      CPUACCEL_UNROLL
      for (int i = 0; i < kHeight; ++i) {
        const Int bytes = V::broadcast4(src[i] + at * 4);
        V::accumulate(acc[0][i], bytes, w0);
        V::accumulate(acc[1][i], bytes, w1);
      }
      w += kQconvStepBytes;
    }
    CPUACCEL_UNROLL
    for (int i = 0; i < kHeight; ++i) {
      sums0[i] = acc[0][i];
      sums1[i] = acc[1][i];
    }
  }
};

// Computes a panel of several taps whose weights leave L1. Returns false and does nothing if this
// loop does not support the panel.
CPUACCEL_INLINE bool qconv_deep(const QconvCall& call, const QconvPanel& panel) {
  constexpr int64_t kLeastPixels = 2 * QconvDeep::kTallest, kLeastBytes = 16 * 1024;
  const QconvLayout& layout = call.weights->layout;
  if (layout.taps == 1 || layout.parts != 1 || layout.several_groups ||
      panel.pixels < kLeastPixels || layout.block_bytes() < kLeastBytes) {
    return false;
  }
  QconvDeep{QconvLoop<Avx512VnniDot4>::of(call, panel)}.run_deep();
  return true;
}

}  // namespace
}  // namespace cpuaccel::kernels
