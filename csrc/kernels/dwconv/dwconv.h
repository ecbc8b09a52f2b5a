// Family dwconv: int8 depthwise convolution, u8 by s8, channels last.
//
//   acc[n,oh,ow,c] = sum over kh, kw of
//       (src[n, oh*SH - PH + kh*DH, ow*SW - PW + kw*DW, c] - src_zero_point) * weights[c,kh,kw]
//   dst[n,oh,ow,c] = ConvDst of acc
//
// src is N x IH x IW x C, dst N x OH x OW x C, both dense. Outside of the image src counts as
// src_zero_point. Exact if dwconv_fits() is true.
// Bound: N*OH*OW*C*KH*KW multiply-adds. An instruction takes four taps a lane, so that KH counts as
// the next multiple of 4 (two rows share one interleaving of taps). See
// benchmarks/cpp/bench_dwconv.cpp for the bound of the whole loop.
#pragma once

#include <cstdint>
#include <span>

#include "base/api.h"
#include "base/scratch.h"
#include "kernels/conv_dst.h"
#include "kernels/kernel_list.h"

namespace cpuaccel::kernels {

struct DwconvShape {
  int64_t C = 0;
  int64_t KH = 1, KW = 1, SH = 1, SW = 1, PH = 0, PW = 0, DH = 1, DW = 1;
};

// Packed weights, the same on every ISA: block of kDwconvBlock channels, quad of kernel rows, kw,
// channel, then the quad's four rows; zero if there is no such row or channel. They take 1.33 times
// the plain weights at 3x3 and 1.6 times at 5x5; the pairs take about twice as much again.
inline constexpr int64_t kDwconvBlock = 16;

struct DwconvWeights {
  DwconvShape shape;
  AlignedBlock taps;      // int8
  AlignedBlock tap_sums;  // int32, C rounded up: sum of a channel's weights
  // The same taps in pairs, for ISAs without a dot product of four bytes: block of channels, pair,
  // channels in the order 0..3, 8..11, 4..7, 12..15, then the pair's two taps as int16. Taps are
  // ordered row by row.
  AlignedBlock tap_pairs;
  int64_t bytes = 0;
  int64_t magnitude = 0;  // of an accumulator: 255 times the largest sum of a channel's |weights|

  const int8_t* block(int64_t c) const;
  int64_t pair_count() const { return (shape.KH * shape.KW + 1) / 2; }
  const int16_t* pairs_of(int64_t c) const {
    return reinterpret_cast<const int16_t*>(tap_pairs.get()) +
           c / kDwconvBlock * pair_count() * 2 * kDwconvBlock;
  }
  const int32_t* sums() const { return reinterpret_cast<const int32_t*>(tap_sums.get()); }
  int64_t quads() const { return (shape.KH + 3) / 4; }
};

// False if an accumulator could overflow int32: 2 * 255 times the sum of |weights|.
CPUACCEL_API bool dwconv_fits(const DwconvShape& shape, const int8_t* weights);

// weights: C x KH x KW.
CPUACCEL_API DwconvWeights dwconv_pack(const DwconvShape& shape, const int8_t* weights);
CPUACCEL_API void dwconv_unpack(const DwconvWeights& packed, int8_t* weights);

struct DwconvCall {
  const DwconvWeights* weights = nullptr;
  int64_t N = 0, IH = 0, IW = 0, OH = 0, OW = 0;
  const uint8_t* src = nullptr;
  int32_t src_zero_point = 0;
  ConvDst dst;
  ConvEpilogue epilogue;
};

// Computes rows [oh, oh + rows) of one image. `scratch`: dwconv_scratch_bytes(call) bytes, 64-byte
// aligned.
using DwconvFunction = void(const DwconvCall& call, int64_t n, int64_t oh, int64_t rows,
                            void* scratch);

#define CPUACCEL_KERNEL(name) DwconvFunction dwconv_##name;
#include "kernels/dwconv/kernels.inc"
#undef CPUACCEL_KERNEL

CPUACCEL_API std::span<const KernelRow<DwconvFunction>> dwconv_kernels();

// Scratch bytes for a row function: the interleaved taps of a tile, a block's weights and a row of
// padding.
size_t dwconv_scratch_bytes(const DwconvCall& call);

// Computes all of dst with the best usable row, or `function`, on all of torch's threads.
CPUACCEL_API void dwconv(const DwconvCall& call);
CPUACCEL_API void dwconv(const DwconvCall& call, DwconvFunction* function);

}  // namespace cpuaccel::kernels
