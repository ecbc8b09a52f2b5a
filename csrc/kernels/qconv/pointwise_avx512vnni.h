// One tap and one group: eight pixels by up to three vectors of channels, bytes of a pixel stored
// together. Included by the ISA source only.
//
// Sums of few source channels are made in little more time than they take to become bytes, so that
// counts as well: for 48 results of a pixel three conversions, three fmas, three roundings and one
// packing.
#pragma once

#include <immintrin.h>

#include <cstdint>
#include <cstring>

#include "kernels/dot4/avx512vnni.h"
#include "kernels/gemm/unroll.h"
#include "kernels/inline.h"
#include "kernels/qconv/qconv.h"

namespace cpuaccel::kernels {
namespace {

template <bool kLimited>  // to less than all bytes
struct QconvPointwise {
  using V = Avx512VnniDot4;
  static constexpr int kPixels = 8;
  static constexpr int kMostVectors = 3;
  static constexpr int64_t kStepBytes = kQconvBlock * 4;
  static constexpr int64_t kMostBytes = 2048;  // of a pixel

  const QconvCall& call;
  const QconvPanel& panel;
  const QconvWeights& weights = *call.weights;
  int64_t steps = weights.layout.steps;
  int64_t OC = weights.shape.OC;
  void run() const {
    const int64_t filled = (OC + V::kLanes - 1) / V::kLanes;
    const int64_t end = panel.block + panel.blocks;
    const int64_t last = end < filled ? end : filled;
    for (int64_t v = panel.block; v < last;) {
      const int64_t left = last - v;
      if (left == 1) {
        pixels<1>(v);
        v += 1;
      } else if (left == 2 || left == 4) {
        pixels<2>(v);
        v += 2;
      } else {
        pixels<3>(v);
        v += 3;
      }
    }
  }

 private:
  // What all pixels share: what sums begin with, and what is made of them.
  template <int kVectors>
  struct Channels {
    __m512i start[kVectors];
    __m512 scales[kVectors], biases[kVectors];
    const int8_t* weights;
    int64_t block;  // from a vector's weights to the next one's
    V::Quantizer quantizer;
  };

  template <int kVectors>
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
    // Read from memory where they are needed: the compiler would keep them in registers, and sums
    // in memory.
    const Channels<kVectors>* channels = &kept;
    asm volatile("" : "+r"(channels) : : "memory");
    const int64_t bytes = left < kVectors * V::kLanes ? left : kVectors * V::kLanes;
    auto* dst = static_cast<uint8_t*>(call.dst.data) + panel.first_pixel * OC + channel;
    alignas(64) uint8_t copies[kPixels * kMostBytes];
    alignas(64) uint8_t results[kPixels * V::kBytes];
    for (int64_t pixel = 0; pixel < panel.pixels; pixel += kPixels, dst += kPixels * OC) {
      const Lines of = lines(pixel, copies);
      const int64_t there = panel.pixels - pixel;
      if (bytes == kVectors * V::kLanes && there >= kPixels) {
        tile<kVectors>(*channels, of, dst, OC);
        continue;
      }
      tile<kVectors>(*channels, of, results, V::kBytes);
      for (int64_t i = 0; i < (there < kPixels ? there : kPixels); ++i) {
        std::memcpy(dst + i * OC, results + i * V::kBytes, static_cast<size_t>(bytes));
      }
    }
  }

  // In place: of the intrinsic GCC 12 keeps two copies of each sum, one of them in memory.
  CPUACCEL_INLINE static void accumulate(__m512i& sum, __m512i source, __m512i of_step) {
    asm("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(source), "v"(of_step));
  }

  // Eight pixels' bytes a line apart: where they lie, or copies.
  struct Lines {
    const uint8_t* first;
    int64_t stride;
  };
  Lines lines(int64_t pixel, uint8_t* copies) const {
    const auto* runs = panel.runs + pixel;
    const int64_t IC = weights.shape.IC;
    bool apart = false;
    for (int i = 1; i < kPixels; ++i) {
      apart |= runs[i] - runs[i - 1] != IC;
    }
    if (!apart) {
      return {runs[0], IC};
    }
    for (int i = 0; i < kPixels; ++i) {
      std::memcpy(copies + i * kMostBytes, runs[i], static_cast<size_t>(steps * 4));
    }
    return {copies, kMostBytes};
  }

  template <int kVectors>
  CPUACCEL_INLINE void tile(const Channels<kVectors>& channels, const Lines& of, uint8_t* dst,
                            int64_t dst_stride) const {
    __m512i acc[kPixels][kVectors];
    CPUACCEL_UNROLL
    for (int i = 0; i < kPixels; ++i) {
      CPUACCEL_UNROLL
      for (int j = 0; j < kVectors; ++j) {
        acc[i][j] = channels.start[j];
      }
    }
    // Three pointers and a distance reach all eight; a pointer each would take vectors' registers.
    const int64_t stride = of.stride;
    const uint8_t* src[3] = {of.first, of.first + 3 * stride, of.first + 6 * stride};
    const int8_t* w = channels.weights;
    const int64_t block = channels.block;
    int64_t left = steps;
    do {
      __m512i of_step[kVectors];
      CPUACCEL_UNROLL
      for (int j = 0; j < kVectors; ++j) {
        of_step[j] = V::load(w + j * block);
      }
      CPUACCEL_UNROLL
      for (int i = 0; i < kPixels; ++i) {
        const __m512i source = V::broadcast4(src[i / 3] + i % 3 * stride);
        CPUACCEL_UNROLL
        for (int j = 0; j < kVectors; ++j) {
          accumulate(acc[i][j], source, of_step[j]);
        }
      }
      w += kStepBytes;
      CPUACCEL_UNROLL
      for (int i = 0; i < 3; ++i) {
        src[i] += 4;
      }
    } while (--left > 0);
    CPUACCEL_UNROLL
    for (int i = 0; i < kPixels; ++i) {
      finish<kVectors>(channels, acc[i], dst + i * dst_stride);
    }
  }

  // The results of a pixel. Straight on, for a branch among eight of them costs sums their
  // registers.
  template <int kVectors>
  CPUACCEL_INLINE void finish(const Channels<kVectors>& channels, const __m512i* acc,
                              uint8_t* dst) const {
    __m512i rounded[kVectors];
    CPUACCEL_UNROLL
    for (int j = 0; j < kVectors; ++j) {
      rounded[j] = _mm512_cvtps_epi32(V::to_real(acc[j], channels.scales[j], channels.biases[j]));
    }
    const __m512i bytes = V::bytes_of<kVectors, kLimited>(rounded, channels.quantizer);
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

// False, and nothing done, of what is no panel for it. A function of real numbers is a call, over
// which no sum would keep its register.
CPUACCEL_INLINE bool qconv_pointwise(const QconvCall& call, const QconvPanel& panel) {
  const QconvLayout& layout = call.weights->layout;
  if (layout.taps != 1 || layout.parts != 1 || layout.several_groups ||
      call.dst.type != DstType::u8 || call.dst.function != ConvFunction::none ||
      panel.pixels == 1 || layout.steps * 4 > QconvPointwise<true>::kMostBytes) {
    return false;
  }
  if (call.dst.min > 0 || call.dst.max < 255) {
    QconvPointwise<true>{call, panel}.run();
  } else {
    QconvPointwise<false>{call, panel}.run();
  }
  return true;
}

}  // namespace
}  // namespace cpuaccel::kernels
