// Family qconv: quantized convolution and linear layers of u8 by s8, channels last. It covers the
// shapes for which other libraries are slow: few channels per group, three input channels, few
// pixels, odd numbers of channels.
//
//   acc[n,oh,ow,oc] = sum over kh, kw, c < IC/G of
//       (src[n, oh*SH - PH + kh*DH, ow*SW - PW + kw*DW, g*IC/G + c] - src_zero_point)
//       * weights[oc,c,kh,kw]                                            g = oc / (OC/G)
//   dst[n,oh,ow,oc] = ConvDst of acc
//
// src N x IH x IW x IC, dst N x OH x OW x OC, both dense. Outside of the image src is
// src_zero_point. A linear layer is a 1x1 convolution with one pixel per image. Exact if
// qconv_fits() is true.
// Bound: N*OH*OW*OC*KH*KW*IC/G multiply-adds, four per instruction and lane. IC/G counts as the
// next multiple of 4, except if a row of taps is contiguous (see QconvLayout).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/api.h"
#include "base/scratch.h"
#include "kernels/conv_dst.h"
#include "kernels/kernel_list.h"

namespace cpuaccel::kernels {

struct QconvShape {
  int64_t IC = 0, OC = 0, G = 1;
  int64_t KH = 1, KW = 1, SH = 1, SW = 1, PH = 0, PW = 0, DH = 1, DW = 1;
};

// Output channels per block of packed weights.
inline constexpr int64_t kQconvBlock = 16;

// Bytes of a step's packed weights: four for each output channel of a block.
inline constexpr int64_t kQconvStepBytes = kQconvBlock * 4;

// How the sum over kh, kw, c is split into runs of contiguous source bytes, and which output
// channels share a run. The first of three forms that applies:
//   a row of taps is a run of KW*IC bytes    one group, DW == 1, IC small
//   several groups per block                 OC/G == IC/G == 4 or 8
//   a tap is a run of IC/G bytes             otherwise
struct QconvLayout {
  int64_t taps = 1;         // runs
  int64_t run = 1;          // bytes of a run
  int64_t steps = 1;        // dot products of four bytes per run: (run + 3) / 4
  bool merged_row = false;  // a run is a row of taps
  bool several_groups = false;
  int64_t parts = 1;         // groups packed separately: G, or OC/16 if groups share a block
  int64_t part_outputs = 1;  // output channels of a part
  int64_t part_inputs = 1;   // distance of one part's input channels to the next one's

  int64_t part_blocks() const { return (part_outputs + kQconvBlock - 1) / kQconvBlock; }
  int64_t block_bytes() const { return taps * steps * kQconvStepBytes; }
};

QconvLayout qconv_layout(const QconvShape& shape);

// How the weights are packed for vpmaddubsw, which adds two products of bytes in 16 bits. Only the
// row x86_avx2 uses forms that are not `whole`. They keep its sums within 16 bits:
//   pairs    two neighboring weights of a step with the same sign add up to at most 128: 255 * 128.
//            What is above is in a rest of few steps (QconvRest)
//   matched  the steps of a run are in an order (QconvOrder) in which the weights of four steps, or
//            of two, add up to at most 258: 127 * 258, for sources of seven bits. Other sources
//            multiply in 16 bits, as they do with `whole`
//   whole    all steps, in order
enum class QconvForm : uint8_t { whole, pairs, matched };

// The form to pass to qconv_pack() on this CPU.
CPUACCEL_API QconvForm qconv_form();

// Remainders of split weights: steps of some blocks, whose products are added to those of all
// steps.
struct QconvRest {
  struct Place {
    int32_t tap, step;
  };
  std::vector<int32_t> first;  // first place of each block of all parts; then the end
  std::vector<Place> places;
  AlignedBlock values;  // place, output channel, four source bytes
};

// The order of the steps within each block and tap: fours of steps, then pairs, then single ones.
struct QconvOrder {
  struct Ends {
    int32_t fours, pairs;  // places
  };
  std::vector<uint16_t> steps;   // block, tap, place: the step that is packed there
  std::vector<uint16_t> places;  // block, tap, step: where it is packed
  std::vector<Ends> ends;        // block, tap
};

// Packed weights. Layout of the values: part, block, tap, step, output channel, four source bytes;
// zero in the padding.
struct QconvWeights {
  QconvShape shape;
  QconvLayout layout;
  QconvForm form = QconvForm::whole;
  AlignedBlock values;        // int8
  AlignedBlock channel_sums;  // int32: sum of each output channel's weights, in whole blocks
  QconvRest rest;             // for the form `pairs`
  QconvOrder order;           // for the form `matched`
  int64_t bytes = 0;
  int64_t magnitude = 0;  // bound of |acc|: 255 * max over channels of sum |weights|

  const int8_t* block(int64_t part, int64_t index) const {
    return reinterpret_cast<const int8_t*>(values.get()) +
           (part * layout.part_blocks() + index) * layout.block_bytes();
  }
  const int32_t* sums(int64_t part) const {
    return reinterpret_cast<const int32_t*>(channel_sums.get()) +
           part * layout.part_blocks() * kQconvBlock;
  }
};

// False if an accumulator could overflow int32 on the way: 2 * 255 times the sum of |weights|.
CPUACCEL_API bool qconv_fits(const QconvShape& shape, const int8_t* weights);

// Bytes of the packed weights of `shape` in the form `whole`.
int64_t qconv_packed_bytes(const QconvShape& shape);

// Packs weights: OC x IC/G x KH x KW. For `pairs`, `matched` is used instead if only that leaves
// few steps out (kAttempts in weights.cpp). The weights stay `whole` if neither does, if sums are
// short, or if several groups share a block.
CPUACCEL_API QconvWeights qconv_pack(const QconvShape& shape, const int8_t* weights,
                                     QconvForm form = QconvForm::whole);
CPUACCEL_API void qconv_unpack(const QconvWeights& packed, int8_t* weights);

struct QconvCall {
  const QconvWeights* weights = nullptr;
  int64_t N = 0, IH = 1, IW = 1, OH = 1, OW = 1;
  const uint8_t* src = nullptr;
  int32_t src_zero_point = 0;
  ConvDst dst;
  ConvEpilogue epilogue;
};

// Source bytes above 127: vpmaddubsw is exact if all source bytes are at most 127. Quantizers of
// seven bits ensure that, except for values beyond the calibrated range. An entry holds what four
// bytes of a run have above 127.
struct QconvExcess {
  int32_t tap, step;  // if several groups share a block, `step` counts the fours of all of them
  uint32_t bytes;
};

// One unit of work: some pixels by some output channels. Pixels are given by the addresses of their
// runs.
struct QconvPanel {
  // runs[tap * kQconvPanel + pixel]: the first byte of that tap's run at part 0. Kernels may read
  // four bytes per step from it.
  const uint8_t* const* runs = nullptr;
  // The original `runs` if excess_first is not null, else the same as `runs`.
  const uint8_t* const* whole_runs = nullptr;
  int64_t pixels = 0;
  int64_t first_pixel = 0;  // in N*OH*OW
  // Only for the row x86_avx2. If not null, no byte of `runs` is above 127, and pixel i's excess is
  // in `excess` from excess_first[i] to excess_first[i + 1].
  const int32_t* excess_first = nullptr;
  const QconvExcess* excess = nullptr;
  int64_t part = 0, block = 0, blocks = 0;  // output channels
};

// Maximum number of pixels of a panel. `runs` is padded to a multiple of kQconvTallest with repeats
// of the last pixel.
inline constexpr int64_t kQconvPanel = 64;
inline constexpr int64_t kQconvTallest = 8;

// Blocks per call of a kernel: their 16 KiB of weights stay in the L1 cache during a panel.
inline int64_t qconv_chunk(const QconvLayout& layout) {
  constexpr int64_t kChunkBytes = 16 * 1024, kLeast = 4;
  const int64_t blocks = kChunkBytes / layout.block_bytes();
  return (blocks < kLeast ? kLeast : blocks) / kLeast * kLeast;
}

using QconvFunction = void(const QconvCall& call, const QconvPanel& panel);

#define CPUACCEL_KERNEL(name) QconvFunction qconv_##name;
#include "kernels/qconv/kernels.inc"
#undef CPUACCEL_KERNEL

CPUACCEL_API std::span<const KernelRow<QconvFunction>> qconv_kernels();

// Runs the best usable row that reads the weights' form, or `function`, on all of torch's threads.
CPUACCEL_API void qconv(const QconvCall& call);
CPUACCEL_API void qconv(const QconvCall& call, QconvFunction* function);

}  // namespace cpuaccel::kernels
