#include "kernels/dwconv/dwconv.h"

#include <algorithm>
#include <array>
#include <limits>

#include "base/parallel.h"
#include "kernels/dwconv/tile.h"

namespace cpuaccel::kernels {
namespace {

constexpr std::array kRows{
#define CPUACCEL_KERNEL(name) CPUACCEL_ROW(KernelRow<DwconvFunction>, name, dwconv_##name)
#include "kernels/dwconv/kernels.inc"
#undef CPUACCEL_KERNEL
};

// About half of the smallest L1 data cache; the other half is for sources, results and weights.
constexpr int64_t kTapBytes = 16 * 1024;
// The widest vector that holds a quad of taps: 64 bytes, or two parts of 32.
constexpr int64_t kMostTapVector = 64;
// Most rows per call of a row function. They share the widening of the weights, and the epilogue
// finds the results in the L2 cache.
constexpr int64_t kMostRows = 8;
// Multiply-adds per thread at least: about 10 us.
constexpr int64_t kGrain = 200000;

int64_t blocks(const DwconvShape& shape) { return (shape.C + kDwconvBlock - 1) / kDwconvBlock; }

int64_t block_bytes(const DwconvShape& shape) {
  return (shape.KH + 3) / 4 * shape.KW * kDwconvBlock * 4;
}

int64_t magnitude(const DwconvShape& shape, const int8_t* weights) {
  const int64_t count = shape.KH * shape.KW;
  int64_t most = 0;
  for (int64_t c = 0; c < shape.C; ++c) {
    int64_t sum = 0;
    for (int64_t i = 0; i < count; ++i) {
      sum += std::abs(static_cast<int64_t>(weights[c * count + i]));
    }
    most = std::max(most, 255 * sum);
  }
  return most;
}

// The offset of a tap's weight in its block.
int64_t tap_offset(const DwconvShape& shape, int64_t c, int64_t kh, int64_t kw) {
  return (((kh / 4) * shape.KW + kw) * kDwconvBlock + c % kDwconvBlock) * 4 + kh % 4;
}

// The offset among the pairs, where channels 4..7 and 8..11 of a block are swapped.
int64_t pair_offset(const DwconvShape& shape, int64_t c, int64_t tap) {
  constexpr int64_t kQuarter[] = {0, 2, 1, 3};
  const int64_t i = c % kDwconvBlock;
  const int64_t pairs = (shape.KH * shape.KW + 1) / 2;
  const int64_t place = kQuarter[i / 4] * 4 + i % 4;
  return ((c / kDwconvBlock * pairs + tap / 2) * kDwconvBlock + place) * 2 + tap % 2;
}

}  // namespace

std::span<const KernelRow<DwconvFunction>> dwconv_kernels() { return kRows; }

const int8_t* DwconvWeights::block(int64_t c) const {
  return reinterpret_cast<const int8_t*>(taps.get()) + c / kDwconvBlock * block_bytes(shape);
}

bool dwconv_fits(const DwconvShape& shape, const int8_t* weights) {
  return 2 * magnitude(shape, weights) <= std::numeric_limits<int32_t>::max();
}

DwconvWeights dwconv_pack(const DwconvShape& shape, const int8_t* weights) {
  DwconvWeights packed;
  packed.shape = shape;
  packed.magnitude = magnitude(shape, weights);
  const auto tap_bytes = static_cast<size_t>(blocks(shape) * block_bytes(shape));
  const auto sum_bytes = static_cast<size_t>(blocks(shape) * kDwconvBlock) * sizeof(int32_t);
  packed.taps = aligned_block(tap_bytes);
  packed.tap_sums = aligned_block(sum_bytes);
  const auto pair_bytes =
      static_cast<size_t>(blocks(shape) * packed.pair_count() * 2 * kDwconvBlock) * sizeof(int16_t);
  packed.tap_pairs = aligned_block(pair_bytes);
  packed.bytes = static_cast<int64_t>(tap_bytes + pair_bytes + sum_bytes);
  std::fill_n(packed.taps.get(), tap_bytes, std::byte{0});
  std::fill_n(packed.tap_pairs.get(), pair_bytes, std::byte{0});
  std::fill_n(packed.tap_sums.get(), sum_bytes, std::byte{0});
  auto* taps = reinterpret_cast<int8_t*>(packed.taps.get());
  auto* pairs = reinterpret_cast<int16_t*>(packed.tap_pairs.get());
  auto* sums = reinterpret_cast<int32_t*>(packed.tap_sums.get());
  for (int64_t c = 0; c < shape.C; ++c) {
    auto* block = taps + c / kDwconvBlock * block_bytes(shape);
    for (int64_t kh = 0; kh < shape.KH; ++kh) {
      for (int64_t kw = 0; kw < shape.KW; ++kw) {
        const int8_t weight = weights[(c * shape.KH + kh) * shape.KW + kw];
        block[tap_offset(shape, c, kh, kw)] = weight;
        pairs[pair_offset(shape, c, kh * shape.KW + kw)] = weight;
        sums[c] += weight;
      }
    }
  }
  return packed;
}

void dwconv_unpack(const DwconvWeights& packed, int8_t* weights) {
  const auto& shape = packed.shape;
  for (int64_t c = 0; c < shape.C; ++c) {
    for (int64_t kh = 0; kh < shape.KH; ++kh) {
      for (int64_t kw = 0; kw < shape.KW; ++kw) {
        weights[(c * shape.KH + kh) * shape.KW + kw] =
            packed.block(c)[tap_offset(shape, c, kh, kw)];
      }
    }
  }
}

bool dwconv_pairs_rows(const DwconvShape& shape) { return shape.SH == 1 && shape.DH == 1; }

DwconvTile dwconv_tile(const DwconvCall& call, int64_t rows, int64_t tap_vector) {
  const DwconvShape& shape = call.weights->shape;
  DwconvTile tile;
  tile.rows = rows;
  tile.quads = (shape.KH + (rows - 1) + 3) / 4;
  const int64_t column = 4 * tile.quads * tap_vector;  // four vectors of channels
  const int64_t halo = (shape.KW - 1) * shape.DW + 1;
  const int64_t most = std::max<int64_t>(1, (kTapBytes / column - halo) / shape.SW + 1);
  // Tiles of equal size, so that the last one is not small.
  const int64_t tiles = (call.OW + most - 1) / most;
  tile.outputs = (call.OW + tiles - 1) / tiles;
  tile.columns = (tile.outputs - 1) * shape.SW + halo;
  tile.tap_bytes = tile.columns * column;
  tile.weight_bytes = 4 * rows * shape.KW * tile.quads * tap_vector;
  return tile;
}

size_t dwconv_padding_bytes(const DwconvCall& call) {
  return static_cast<size_t>(call.IW * call.weights->shape.C + 63) / 64 * 64;
}

size_t dwconv_scratch_bytes(const DwconvCall& call) {
  // A pointer to each tap, for the direct kernel.
  const auto& shape = call.weights->shape;
  auto most = static_cast<size_t>(shape.KH * shape.KW) * sizeof(const uint8_t*);
  for (int64_t rows = 1; rows <= 2; ++rows) {
    const auto tile = dwconv_tile(call, rows, kMostTapVector);
    // Tiles of narrower vectors may be longer: they fit the same bytes, and have one more column.
    most = std::max(most, static_cast<size_t>(2 * tile.tap_bytes + tile.weight_bytes + kTapBytes));
  }
  return dwconv_padding_bytes(call) + most;
}

void dwconv(const DwconvCall& call, DwconvFunction* function) {
  const DwconvShape& shape = call.weights->shape;
  const int64_t unit = dwconv_pairs_rows(shape) ? 2 : 1;
  const int64_t units = (call.OH + unit - 1) / unit;  // per image
  const auto body = [&](int64_t begin, int64_t end) {
    void* memory = scratch(ScratchSlot::taps, dwconv_scratch_bytes(call));
    for (int64_t i = begin; i < end;) {
      const int64_t n = i / units, oh = i % units * unit;
      const int64_t together = std::min({end - i, units - i % units, kMostRows / unit});
      const int64_t rows = std::min(together * unit, call.OH - oh);
      function(call, n, oh, rows, memory);
      if (call.epilogue.run != nullptr) {
        const int64_t row = call.OW * shape.C;
        call.epilogue.run(call.epilogue.context, static_cast<uint8_t*>(call.dst.data),
                          (n * call.OH + oh) * row, rows * row);
      }
      i += together;
    }
  };
  const int64_t unit_work = unit * call.OW * shape.C * shape.KH * shape.KW;
  const int64_t grain = std::max<int64_t>(1, kGrain / std::max<int64_t>(1, unit_work));
  parallel_for(0, call.N * units, grain, body);
}

void dwconv(const DwconvCall& call) { dwconv(call, first_usable(dwconv_kernels()).function); }

}  // namespace cpuaccel::kernels
