// qconv for one tap and one group (1x1 convolution, linear) with AVX512-VNNI: tiles of up to eight
// pixels by up to three vectors of channels. The bytes of a pixel are stored together. Included by
// the ISA source only.
//
// With few source channels the sums take little more time than their conversion to bytes, so that
// is optimized too: 48 results of a pixel take three conversions, three fmas, three roundings and
// one packing. Post-ops are applied to a tile's floats in memory: within the tile they would make
// the compiler spill the sums.
#pragma once

#include <immintrin.h>

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "kernels/conv_activation.h"
#include "kernels/dot4/avx512vnni.h"
#include "kernels/gemm/unroll.h"
#include "kernels/inline.h"
#include "kernels/qconv/even_tiles.h"
#include "kernels/qconv/qconv.h"
#include "kernels/spread_prefetch.h"

namespace cpuaccel::kernels {
namespace {

// Type of the results of a tile.
enum class PointwiseResults : uint8_t {
  bytes,
  limited_bytes,  // clamped to a smaller range, or sign-flipped
  reals,
};

// Bit i is set if the distance from pixel i to i + 1 differs from that from i + 1 to i + 2.
CPUACCEL_INLINE uint64_t uneven_pixels(const QconvPanel& panel) {
  static_assert(kQconvPanel <= 64);
  const auto* runs = panel.runs;
  uint64_t bits = 0;
  for (int64_t i = 0; i + 2 < panel.pixels; ++i) {
    bits |= uint64_t{runs[i + 1] - runs[i] == runs[i + 2] - runs[i + 1] ? 0u : 1u} << i;
  }
  return bits;
}

template <PointwiseResults kResults>
struct QconvPointwise {
  using V = Avx512VnniDot4;
  static constexpr bool kReals = kResults == PointwiseResults::reals;
  static constexpr bool kLimited = kResults != PointwiseResults::bytes;
  using Result = std::conditional_t<kReals, float, uint8_t>;
  static constexpr int kPixels = 8;            // maximum of a tile
  static constexpr int64_t kMostBytes = 2048;  // maximum for a pixel that is copied

  const QconvCall& call;
  const QconvPanel& panel;
  const QconvWeights& weights = *call.weights;
  int64_t steps = weights.layout.steps;
  int64_t OC = weights.shape.OC;
  int64_t filled = (OC + V::kLanes - 1) / V::kLanes;
  uint64_t uneven = uneven_pixels(panel);

  void run() const {
    const int64_t end = panel.block + panel.blocks;
    const int64_t last = end < filled ? end : filled;
    for (int64_t v = panel.block; v < last;) {
      const int64_t left = last - v;
      const int64_t width = left == 1 ? 1 : left == 2 || left == 4 ? 2 : 3;
      asks_ahead() ? pixels_of<true>(v, width) : pixels_of<false>(v, width);
      v += width;
    }
  }

 private:
  // With few pixels, weights are used only a few times, so the next ones are prefetched from L3 or
  // memory: 16 pixels of 768 to 3072 channels take 0.9 of the time. With more pixels this costs a
  // little.
  bool asks_ahead() const { return panel.pixels <= 8 * kPixels && steps >= 32; }

  template <bool kAsks>
  void pixels_of(int64_t v, int64_t width) const {
    switch (width) {
      case 1:
        return pixels<1, kAsks>(v);
      case 2:
        return pixels<2, kAsks>(v);
      default:
        return pixels<3, kAsks>(v);
    }
  }

  // Values shared by all pixels: initial sums, and what converts sums to results.
  template <int kVectors>
  struct Channels {
    __m512i start[kVectors];
    __m512 scales[kVectors], biases[kVectors];
    const int8_t* weights;
    int64_t block;  // bytes from a vector's weights to the next one's
    V::Quantizer quantizer;
  };

  template <int kVectors, bool kAsks>
  void pixels(int64_t v) const {
    const int64_t channel = v * V::kLanes, left = OC - channel;
    Channels<kVectors> kept{{},
                            {},
                            {},
                            weights.block(0, v),
                            weights.layout.block_bytes(),
                            {call.dst.zero_point, call.dst.min, call.dst.max, call.dst.flip()}};
    const int32_t* sums = weights.sums(0);
    const __m512i zero_point = _mm512_set1_epi32(-call.src_zero_point);
    CPUACCEL_UNROLL
    for (int j = 0; j < kVectors; ++j) {
      const int64_t at = channel + j * V::kLanes, count = left - j * V::kLanes;
      kept.start[j] = _mm512_mullo_epi32(zero_point, V::load(sums + at));
      kept.scales[j] = V::load_floats(call.dst.scales + at, count);
      kept.biases[j] = V::load_floats(call.dst.bias + at, count);
    }
    // Makes the compiler read these from memory when needed. Otherwise it keeps them in registers
    // and spills the sums.
    const Channels<kVectors>* channels = &kept;
    asm volatile("" : "+r"(channels) : : "memory");
    constexpr int64_t kWidth = kVectors * V::kLanes;
    const int64_t count = left < kWidth ? left : kWidth;
    const int64_t element = call.dst.element_size();
    const bool in_place = count == kWidth && call.dst.activation == Activation::none &&
                          element == int64_t{sizeof(Result)};
    auto* dst = static_cast<uint8_t*>(call.dst.data) + (panel.first_pixel * OC + channel) * element;
    alignas(64) uint8_t copies[kPixels * kMostBytes];
    alignas(64) Result results[kPixels * kWidth];
    const EvenTiles tiles(panel.pixels, kPixels);  // at least two pixels
    const int64_t next = filled - v - kVectors;
    const int64_t wanted = kAsks ? (next < 3 ? next : 3) * kept.block : 0;
    SpreadPrefetchLoops ahead(kept.weights + kVectors * kept.block, wanted, steps, tiles.count);
    for (int64_t tile = 0, pixel = 0; tile < tiles.count; ++tile) {
      const int64_t height = tiles.height(tile);
      const Lines of = lines(pixel, height, copies);
      const SpreadPrefetch asked = ahead.next();
      if (in_place) {
        tile_of<kVectors, kAsks>(height, *channels, of, asked, reinterpret_cast<Result*>(dst), OC);
      } else {
        tile_of<kVectors, kAsks>(height, *channels, of, asked, results, kWidth);
        if constexpr (kReals) {
          store_reals<kVectors>(results, height, count, channels->quantizer, dst);
        } else {
          for (int64_t i = 0; i < height; ++i) {
            store_part<kVectors>(results + i * kWidth, count, dst + i * OC);
          }
        }
      }
      pixel += height;
      dst += height * OC * element;
    }
  }

  // Applies the post-op and stores `count` channels of each pixel.
  template <int kVectors>
  [[gnu::noinline]] void store_reals(float* reals, int64_t height, int64_t count,
                                     const V::Quantizer& quantizer, uint8_t* dst) const {
    constexpr int64_t kWidth = kVectors * V::kLanes;
    auto* vectors = reinterpret_cast<__m512*>(reals);
    apply_activation<V::Floats>(call.dst.activation, call.dst.inverse_scale, vectors,
                                height * kVectors);
    for (int64_t i = 0; i < height; ++i, vectors += kVectors) {
      if (call.dst.type == DataType::f32) {
        for (int64_t j = 0; j < kVectors; ++j) {
          const int64_t left = count - j * V::kLanes;
          V::store_floats(reinterpret_cast<float*>(dst) + i * OC + j * V::kLanes, vectors[j],
                          left < 0 ? 0 : left);
        }
        continue;
      }
      __m512i rounded[kVectors];
      CPUACCEL_UNROLL
      for (int j = 0; j < kVectors; ++j) {
        rounded[j] = _mm512_cvtps_epi32(vectors[j]);
      }
      if (count == kWidth) {
        store_bytes<kVectors>(rounded, quantizer, dst + i * OC);
      } else {
        uint8_t bytes[kWidth];
        store_bytes<kVectors>(rounded, quantizer, bytes);
        store_part<kVectors>(bytes, count, dst + i * OC);
      }
    }
  }

  // Stores the first `count` of kVectors * 16 bytes. A call of memcpy takes longer.
  template <int kVectors>
  CPUACCEL_INLINE static void store_part(const uint8_t* from, int64_t count, uint8_t* to) {
    const uint64_t mask = (uint64_t{1} << count) - 1;
    CPUACCEL_UNROLL
    for (int j = 0; j < kVectors; ++j) {
      _mm_mask_storeu_epi8(to + j * V::kLanes, static_cast<__mmask16>(mask >> (j * V::kLanes)),
                           _mm_loadu_si128(reinterpret_cast<const __m128i*>(from) + j));
    }
  }

  // The pixels of a tile at a constant stride: in the source, or copies.
  struct Lines {
    const uint8_t* first;
    int64_t stride;
  };
  Lines lines(int64_t pixel, int64_t height, uint8_t* copies) const {
    const auto* runs = panel.runs + pixel;
    if ((uneven >> pixel & ((uint64_t{1} << (height - 2)) - 1)) == 0) {
      return {runs[0], runs[1] - runs[0]};
    }
    for (int64_t i = 0; i < height; ++i) {
      std::memcpy(copies + i * kMostBytes, runs[i], static_cast<size_t>(steps * 4));
    }
    return {copies, kMostBytes};
  }

  template <int kVectors, bool kAsks>
  CPUACCEL_INLINE void tile_of(int64_t height, const Channels<kVectors>& channels, const Lines& of,
                               const SpreadPrefetch& ahead, Result* dst, int64_t dst_stride) const {
    static_assert(kPixels == 8);
    switch (height) {
      case 2:
        return tile<2, kVectors, kAsks>(channels, of, ahead, dst, dst_stride);
      case 3:
        return tile<3, kVectors, kAsks>(channels, of, ahead, dst, dst_stride);
      case 4:
        return tile<4, kVectors, kAsks>(channels, of, ahead, dst, dst_stride);
      case 5:
        return tile<5, kVectors, kAsks>(channels, of, ahead, dst, dst_stride);
      case 6:
        return tile<6, kVectors, kAsks>(channels, of, ahead, dst, dst_stride);
      case 7:
        return tile<7, kVectors, kAsks>(channels, of, ahead, dst, dst_stride);
      default:
        return tile<8, kVectors, kAsks>(channels, of, ahead, dst, dst_stride);
    }
  }

  template <int kHeight, int kVectors, bool kAsks>
  [[gnu::noinline]] void tile(const Channels<kVectors>& channels, const Lines& of,
                              [[maybe_unused]] SpreadPrefetch ahead, Result* dst,
                              int64_t dst_stride) const {
    __m512i acc[kHeight][kVectors];
    CPUACCEL_UNROLL
    for (int i = 0; i < kHeight; ++i) {
      CPUACCEL_UNROLL
      for (int j = 0; j < kVectors; ++j) {
        acc[i][j] = channels.start[j];
      }
    }
    // Three pointers and a stride reach all eight pixels; one pointer per pixel would take too many
    // registers.
    const int64_t stride = of.stride;
    const uint8_t* src[3] = {of.first, of.first + 3 * stride, of.first + 6 * stride};
    const int8_t* w = channels.weights;
    const int64_t block = channels.block;
    int64_t left = steps;
    do {
      if constexpr (kAsks) {
        ahead.ask();
      }
      __m512i of_step[kVectors];
      CPUACCEL_UNROLL
      for (int j = 0; j < kVectors; ++j) {
        of_step[j] = V::load(w + j * block);
      }
      CPUACCEL_UNROLL
      for (int i = 0; i < kHeight; ++i) {
        const __m512i source = V::broadcast4(src[i / 3] + i % 3 * stride);
        CPUACCEL_UNROLL
        for (int j = 0; j < kVectors; ++j) {
          V::accumulate(acc[i][j], source, of_step[j]);
        }
      }
      w += kQconvStepBytes;
      CPUACCEL_UNROLL
      for (int i = 0; i < 3; ++i) {
        src[i] += 4;
      }
    } while (--left > 0);
    CPUACCEL_UNROLL
    for (int i = 0; i < kHeight; ++i) {
      finish<kVectors>(channels, acc[i], dst + i * dst_stride);
    }
  }

  // Converts and stores the results of a pixel. Without branches: a branch for each of eight pixels
  // makes the compiler spill the sums.
  template <int kVectors>
  CPUACCEL_INLINE void finish(const Channels<kVectors>& channels, const __m512i* acc,
                              Result* dst) const {
    __m512i rounded[kVectors];
    CPUACCEL_UNROLL
    for (int j = 0; j < kVectors; ++j) {
      const __m512 real = V::to_real(acc[j], channels.scales[j], channels.biases[j]);
      if constexpr (kReals) {
        _mm512_storeu_ps(dst + j * V::kLanes, real);
      } else {
        rounded[j] = _mm512_cvtps_epi32(real);
      }
    }
    if constexpr (!kReals) {
      store_bytes<kVectors>(rounded, channels.quantizer, dst);
    }
  }

  template <int kVectors>
  CPUACCEL_INLINE static void store_bytes(const __m512i* rounded, const V::Quantizer& quantizer,
                                          uint8_t* dst) {
    __m512i bytes = V::bytes_of<kVectors, kLimited>(rounded, quantizer);
    if constexpr (kLimited) {
      bytes = _mm512_xor_si512(bytes, quantizer.flip);
    }
    if constexpr (kVectors > 1) {
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(dst), _mm512_castsi512_si256(bytes));
    }
    if constexpr (kVectors % 2 == 1) {
      constexpr int kLast = kVectors - 1;
      _mm_storeu_si128(reinterpret_cast<__m128i*>(dst + kLast * V::kLanes),
                       _mm512_extracti32x4_epi32(bytes, kLast));
    }
  }
};

// Computes a panel of one tap and one group. Returns false and does nothing if this loop does not
// support the panel.
CPUACCEL_INLINE bool qconv_pointwise(const QconvCall& call, const QconvPanel& panel) {
  using Results = PointwiseResults;
  const QconvLayout& layout = call.weights->layout;
  if (layout.taps != 1 || layout.parts != 1 || layout.several_groups || panel.pixels == 1) {
    return false;
  }
  if (layout.steps * 4 > QconvPointwise<Results::bytes>::kMostBytes && uneven_pixels(panel) != 0) {
    return false;
  }
  const ConvDst& dst = call.dst;
  if (dst.type == DataType::f32 || dst.activation != Activation::none) {
    QconvPointwise<Results::reals>{call, panel}.run();
  } else if (dst.min > 0 || dst.max < 255 || dst.flip() != 0) {
    QconvPointwise<Results::limited_bytes>{call, panel}.run();
  } else {
    QconvPointwise<Results::bytes>{call, panel}.run();
  }
  return true;
}

}  // namespace
}  // namespace cpuaccel::kernels
