// Direct depthwise convolution on AVX2, for few taps. Without a dot product of four bytes it does
// not pay to interleave columns for all results that share them (impl.h), so that each result reads
// its own taps, in pairs.
//
//   acc[c] += tap0[c] * weight0[c] + tap1[c] * weight1[c]      (vpmaddwd, 16 x 16 bits into 32)
//
// for 16 channels. Included by ISA sources only.
#pragma once

#include <immintrin.h>

#include <cstdint>
#include <cstring>

#include "kernels/conv_activation.h"
#include "kernels/dwconv/dwconv.h"
#include "kernels/float_vectors/exp_avx2.h"
#include "kernels/inline.h"

namespace cpuaccel::kernels {
namespace {

constexpr int64_t kBlock = kDwconvBlock;
// Channels computed over a row of results before the next channels: a cache line.
constexpr int64_t kChunk = 64;
// Results computed together, which share taps.
constexpr int kDenseResults = 4;

// Sums of kBlock channels as two vectors, in the order that unpacking gives.
struct Halves {
  __m256i low;   // channels 0..3 and 8..11
  __m256i high;  // channels 4..7 and 12..15
};

// The parameters of a block of channels: weights, start of the sums, scale, bias.
struct Block {
  const int16_t* pairs;
  __m256i start_low, start_high;  // -src_zero_point * sum of weights
  __m256 scale_low, scale_high, bias_low, bias_high;
};

// ConvDst, as vectors.
struct Output {
  explicit Output(const ConvDst& dst)
      : type(dst.type),
        zero_point(_mm256_set1_epi16(static_cast<int16_t>(dst.zero_point))),
        min(all(dst.min)),
        max(all(dst.max)),
        flip(all(dst.flip())) {}
  static __m128i all(uint8_t value) { return _mm_set1_epi8(static_cast<char>(value)); }
  DataType type;
  __m256i zero_point;
  __m128i min, max, flip;
};

// Taps of results in the middle of the image: kKH rows, columns `step` apart. kDense: results are
// as far apart as columns, so that the compiler sees which taps they share.
template <int kKH, int kKW, bool kDense>
struct Inside {
  const uint8_t* rows[kKH];
  int64_t step, next;
  CPUACCEL_INLINE const uint8_t* operator()(int64_t tap, int64_t result) const {
    const uint8_t* row = rows[tap / kKW];
    return kDense ? row + (tap % kKW + result) * step : row + tap % kKW * step + result * next;
  }
};

// Taps of any one result, as a list of pointers.
struct Listed {
  const uint8_t* const* taps;
  CPUACCEL_INLINE const uint8_t* operator()(int64_t tap, int64_t /*result*/) const {
    return taps[tap];
  }
};

// The same for several results, which are `next` bytes apart: the list of an earlier result of the
// row, and the distance from it.
struct Shifted {
  const uint8_t* const* taps;
  int64_t shift, next;
  CPUACCEL_INLINE const uint8_t* operator()(int64_t tap, int64_t result) const {
    return taps[tap] + shift + result * next;
  }
};

CPUACCEL_INLINE __m256 ordered(const float* from) {
  return _mm256_set_m128(_mm_load_ps(from + 8), _mm_load_ps(from));
}
CPUACCEL_INLINE __m256i ordered(const int32_t* from) {
  return _mm256_set_m128i(_mm_load_si128(reinterpret_cast<const __m128i*>(from + 8)),
                          _mm_load_si128(reinterpret_cast<const __m128i*>(from)));
}

struct Direct {
  const DwconvCall& call;
  const DwconvShape& shape;
  int64_t n;
  const uint8_t** taps;  // scratch memory for the taps of one result
  alignas(64) uint8_t padding[kChunk + kBlock];

  // The block of `count` channels from c on.
  Block block(int64_t c, int64_t count) const {
    alignas(32) float scales[kBlock] = {}, biases[kBlock] = {};
    alignas(32) int32_t starts[kBlock] = {};
    for (int64_t i = 0; i < count; ++i) {
      scales[i] = call.dst.scales[c + i];
      biases[i] = call.dst.bias[c + i];
      starts[i] = -call.src_zero_point * call.weights->sums()[c + i];
    }
    return {call.weights->pairs_of(c), ordered(starts), ordered(starts + 4), ordered(scales),
            ordered(scales + 4),       ordered(biases), ordered(biases + 4)};
  }

  const uint8_t* tap_at(int64_t ih, int64_t iw, int64_t c) const {
    return call.src + ((n * call.IH + ih) * call.IW + iw) * shape.C + c;
  }

  // The taps of channels from c on, for result (oh, ow).
  Listed list_taps(int64_t oh, int64_t ow, int64_t c) const {
    const uint8_t** to = taps;
    for (int64_t kh = 0; kh < shape.KH; ++kh) {
      const int64_t ih = oh * shape.SH - shape.PH + kh * shape.DH;
      for (int64_t kw = 0; kw < shape.KW; ++kw) {
        const int64_t iw = ow * shape.SW - shape.PW + kw * shape.DW;
        const bool inside = ih >= 0 && ih < call.IH && iw >= 0 && iw < call.IW;
        *to++ = inside ? tap_at(ih, iw, c) : padding;
      }
    }
    return {taps};
  }

  template <int kKH, int kKW, bool kDense>
  Inside<kKH, kKW, kDense> inside_taps(int64_t oh, int64_t ow, int64_t c) const {
    Inside<kKH, kKW, kDense> inside;
    for (int64_t kh = 0; kh < kKH; ++kh) {
      inside.rows[kh] =
          tap_at(oh * shape.SH - shape.PH + kh * shape.DH, ow * shape.SW - shape.PW, c);
    }
    inside.step = shape.DW * shape.C;
    inside.next = shape.SW * shape.C;
    return inside;
  }

  // Loads 16 channels of a tap. Only `count` of them are used, and more may not be readable.
  template <bool kWhole>
  CPUACCEL_INLINE __m256i load(const uint8_t* from, int64_t count) const {
    if constexpr (!kWhole) {
      const uint8_t* end = call.src + call.N * call.IH * call.IW * shape.C;
      if (reinterpret_cast<uintptr_t>(end) - reinterpret_cast<uintptr_t>(from) < kBlock) {
        alignas(16) uint8_t bytes[kBlock] = {};
        std::memcpy(bytes, from, static_cast<size_t>(count));
        return _mm256_cvtepu8_epi16(_mm_load_si128(reinterpret_cast<const __m128i*>(bytes)));
      }
    }
    return _mm256_cvtepu8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
  }

  // Sums of kResults neighboring results. kTaps: 0 if not known at compile time.
  template <int kTaps, int kResults, bool kWhole, typename Taps>
  CPUACCEL_INLINE void accumulate(const Block& b, const Taps& where, int64_t offset, int64_t count,
                                  Halves acc[]) const {
    const int64_t number = kTaps != 0 ? kTaps : shape.KH * shape.KW;
    for (int r = 0; r < kResults; ++r) {
      acc[r] = {b.start_low, b.start_high};
    }
#pragma GCC unroll 25
    for (int64_t t = 0; t < number; t += 2) {
      const auto* w = reinterpret_cast<const __m256i*>(b.pairs) + t;
      for (int r = 0; r < kResults; ++r) {
        const __m256i first = load<kWhole>(where(t, r) + offset, count);
        const __m256i second =
            t + 1 < number ? load<kWhole>(where(t + 1, r) + offset, count) : _mm256_setzero_si256();
        acc[r].low = _mm256_add_epi32(
            acc[r].low, _mm256_madd_epi16(_mm256_unpacklo_epi16(first, second), w[0]));
        acc[r].high = _mm256_add_epi32(
            acc[r].high, _mm256_madd_epi16(_mm256_unpackhi_epi16(first, second), w[1]));
      }
    }
  }

  // Applies ConvDst to 16 channels and stores the first `count` of them.
  template <bool kWhole>
  CPUACCEL_INLINE void finish(const Block& b, const Output& out, Halves acc, uint8_t* dst,
                              int64_t count) const {
    __m256 reals[2] = {_mm256_fmadd_ps(_mm256_cvtepi32_ps(acc.low), b.scale_low, b.bias_low),
                       _mm256_fmadd_ps(_mm256_cvtepi32_ps(acc.high), b.scale_high, b.bias_high)};
    apply_activation<ExpFloats8, 2>(call.dst, reals);
    const auto [low, high] = reals;
    if (out.type == DataType::f32) [[unlikely]] {
      alignas(32) float floats[kBlock];
      _mm256_store_ps(floats, _mm256_permute2f128_ps(low, high, 0x20));
      _mm256_store_ps(floats + 8, _mm256_permute2f128_ps(low, high, 0x31));
      std::memcpy(dst, floats, static_cast<size_t>(kWhole ? kBlock : count) * sizeof(float));
      return;
    }
    const __m256i rounded = _mm256_packs_epi32(_mm256_cvtps_epi32(low), _mm256_cvtps_epi32(high));
    const __m256i words = _mm256_adds_epi16(rounded, out.zero_point);
    __m128i bytes =
        _mm_packus_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
    bytes = _mm_xor_si128(_mm_min_epu8(_mm_max_epu8(bytes, out.min), out.max), out.flip);
    if constexpr (kWhole) {
      _mm_storeu_si128(reinterpret_cast<__m128i*>(dst), bytes);
    } else {
      alignas(16) uint8_t block[kBlock];
      _mm_store_si128(reinterpret_cast<__m128i*>(block), bytes);
      if (count >= 8) {  // two copies of a fixed size, which may overlap
        std::memcpy(dst, block, 8);
        std::memcpy(dst + count - 8, block + count - 8, 8);
      } else {
        std::memcpy(dst, block, static_cast<size_t>(count));
      }
    }
  }

  // Computes kResults neighboring results for the channels of `blocks`.
  template <int kTaps, int kResults, typename Taps>
  CPUACCEL_INLINE void results(const Block* blocks, int64_t channels, const Output& out,
                               const Taps& where, uint8_t* dst) const {
    const int64_t whole = channels / kBlock, rest = channels % kBlock;
    const int64_t element = call.dst.element_size();
    const int64_t dst_step = shape.C * element;
    Halves acc[kResults];
    for (int64_t i = 0; i < whole; ++i) {
      accumulate<kTaps, kResults, true>(blocks[i], where, i * kBlock, kBlock, acc);
      for (int r = 0; r < kResults; ++r) {
        finish<true>(blocks[i], out, acc[r], dst + r * dst_step + i * kBlock * element, kBlock);
      }
    }
    if (rest > 0) {
      const int64_t first = whole * kBlock;
      accumulate<kTaps, kResults, false>(blocks[whole], where, first, rest, acc);
      for (int r = 0; r < kResults; ++r) {
        finish<false>(blocks[whole], out, acc[r], dst + r * dst_step + first * element, rest);
      }
    }
  }

  // The range of result columns whose taps are all inside of the image.
  void inside_columns(int64_t& begin, int64_t& end) const {
    const int64_t halo = (shape.KW - 1) * shape.DW;
    begin = (shape.PW + shape.SW - 1) / shape.SW;
    end = call.IW + shape.PW < halo + 1 ? 0 : (call.IW + shape.PW - halo - 1) / shape.SW + 1;
    end = end < call.OW ? end : call.OW;
  }

  // kKH, kKW: 0 if not known at compile time.
  template <int kKH, int kKW>
  void chunk(int64_t oh, int64_t rows, int64_t c) const {
    constexpr int kTaps = kKH * kKW;
    const int64_t channels = shape.C - c < kChunk ? shape.C - c : kChunk;
    Block blocks[kChunk / kBlock];
    for (int64_t i = 0; i * kBlock < channels; ++i) {
      const int64_t left = channels - i * kBlock;
      blocks[i] = block(c + i * kBlock, left < kBlock ? left : kBlock);
    }
    const Output out(call.dst);
    const int64_t dst_step = shape.C * call.dst.element_size();
    auto* dst = static_cast<uint8_t*>(call.dst.data) + (n * call.OH + oh) * call.OW * dst_step +
                c * call.dst.element_size();
    int64_t begin = 0, end = 0;
    inside_columns(begin, end);
    for (int64_t row = oh; row < oh + rows; ++row, dst += call.OW * dst_step) {
      const int64_t first = row * shape.SH - shape.PH;
      const bool inside = first >= 0 && first + (shape.KH - 1) * shape.DH < call.IH;
      int64_t listed = -1;  // the result whose taps are listed
      for (int64_t ow = 0; ow < call.OW;) {
        if constexpr (kTaps != 0) {
          if (inside && ow >= begin) {
            if (shape.SW == shape.DW && ow + kDenseResults <= end) {
              results<kTaps, kDenseResults>(blocks, channels, out,
                                            inside_taps<kKH, kKW, true>(row, ow, c),
                                            dst + ow * dst_step);
              ow += kDenseResults;
              continue;
            }
            if (ow + 2 <= end) {
              results<kTaps, 2>(blocks, channels, out, inside_taps<kKH, kKW, false>(row, ow, c),
                                dst + ow * dst_step);
              ow += 2;
              continue;
            }
          }
        } else if (inside && ow >= begin && ow + kDenseResults <= end) {
          if (listed < 0) {
            list_taps(row, ow, c);
            listed = ow;
          }
          const int64_t next = shape.SW * shape.C;
          results<kTaps, kDenseResults>(blocks, channels, out,
                                        Shifted{taps, (ow - listed) * next, next},
                                        dst + ow * dst_step);
          ow += kDenseResults;
          continue;
        }
        results<kTaps, 1>(blocks, channels, out, list_taps(row, ow, c), dst + ow * dst_step);
        ++ow;
      }
    }
  }

  template <int kKH, int kKW>
  bool run(int64_t oh, int64_t rows) const {
    if (kKH != 0 && (shape.KH != kKH || shape.KW != kKW)) {
      return false;
    }
    for (int64_t c = 0; c < shape.C; c += kChunk) {
      chunk<kKH, kKW>(oh, rows, c);
    }
    return true;
  }
};

void dwconv_direct(const DwconvCall& call, int64_t n, int64_t oh, int64_t rows, void* scratch) {
  Direct direct{call, call.weights->shape, n, static_cast<const uint8_t**>(scratch), {}};
  std::memset(direct.padding, call.src_zero_point, sizeof(direct.padding));
  static_cast<void>(direct.run<3, 3>(oh, rows) || direct.run<5, 5>(oh, rows) ||
                    direct.run<7, 7>(oh, rows) || direct.run<0, 0>(oh, rows));
}

}  // namespace
}  // namespace cpuaccel::kernels
