#include "kernels/winograd/winograd.h"

#include <algorithm>
#include <array>

#include "base/parallel.h"
#include "base/scratch.h"
#include "kernels/gemm/gemm.h"
#include "kernels/round_up.h"

namespace cpuaccel::kernels {
namespace {

constexpr std::array kRows{
#define CPUACCEL_KERNEL(name) CPUACCEL_ROW(KernelRow<WinogradFunction>, name, winograd_##name)
#include "kernels/winograd/kernels.inc"
#undef CPUACCEL_KERNEL
};

constexpr int64_t kTaps = 3;
// A block of tiles, transformed and multiplied, stays in L2 if the weights are few. With many
// weights, each block reads them again, and so it is larger.
constexpr int64_t kBlockBytes = int64_t{3} << 19,
                  kMostBlockBytes = static_cast<int64_t>(kCachedScratchBytes);
constexpr int64_t kRowsOfGemm = 16;  // tiles of a block are a multiple
constexpr int64_t kFewestTiles = 6;  // of a block that a thread computes alone
constexpr int64_t kGrain = 8192;     // floats of src or dst, some microseconds of work

int64_t square(int64_t value) { return value * value; }

// Taps of kLanes input channels, side by side: loops over them are vectors.
constexpr int64_t kLanes = 16;
using Lanes = std::array<float, kLanes>;

// G g for columns of three taps that are `step` apart: F(2, 3).
void transform_taps_2(const Lanes* g, int64_t step, Lanes* to, int64_t to_step) {
  for (size_t i = 0; i < kLanes; ++i) {
    const float g0 = g[0][i], g2 = g[2 * step][i];
    const float outer = 0.5f * (g0 + g2), inner = 0.5f * g[step][i];
    to[0][i] = g0;
    to[to_step][i] = outer + inner;
    to[2 * to_step][i] = outer - inner;
    to[3 * to_step][i] = g2;
  }
}

// F(4, 3).
void transform_taps_4(const Lanes* g, int64_t step, Lanes* to, int64_t to_step) {
  constexpr float kSixth = 1.0f / 6, kTwelfth = 1.0f / 12, kTwentyFourth = 1.0f / 24;
  for (size_t i = 0; i < kLanes; ++i) {
    const float g0 = g[0][i], g1 = g[step][i], g2 = g[2 * step][i];
    const float outer = -kSixth * (g0 + g2), inner = -kSixth * g1;
    const float far_outer = kTwentyFourth * g0 + kSixth * g2, far_inner = kTwelfth * g1;
    to[0][i] = 0.25f * g0;
    to[to_step][i] = outer + inner;
    to[2 * to_step][i] = outer - inner;
    to[3 * to_step][i] = far_outer + far_inner;
    to[4 * to_step][i] = far_outer - far_inner;
    to[5 * to_step][i] = g2;
  }
}

// Writes row `a` of the transformed taps of `count` input channels, at most kLanes. Element b of
// the row is `matrix` floats after element b - 1.
void transform_row(const float* weights, const WinogradWeights::Strides& strides, int64_t count,
                   int64_t tile, int64_t a, float* to, int64_t matrix) {
  const auto transform = tile == 2 ? transform_taps_2 : transform_taps_4;
  std::array<Lanes, kTaps * kTaps> taps{};
  std::array<Lanes, 6 * kTaps> rows;
  std::array<Lanes, 6> result;
  for (int64_t i = 0; i < count; ++i) {
    for (int64_t y = 0; y < kTaps; ++y) {
      for (int64_t x = 0; x < kTaps; ++x) {
        taps[static_cast<size_t>(y * kTaps + x)][static_cast<size_t>(i)] =
            weights[i * strides.in + y * strides.row + x * strides.column];
      }
    }
  }
  for (size_t x = 0; x < kTaps; ++x) {
    transform(&taps[x], kTaps, &rows[x], kTaps);
  }
  transform(&rows[static_cast<size_t>(a * kTaps)], 1, result.data(), 1);
  for (int64_t b = 0; b < tile + kTaps - 1; ++b) {
    std::copy_n(result[static_cast<size_t>(b)].data(), count, to + b * matrix);
  }
}

// How the tiles of all images lie, and the memory of a block of them.
struct Tiles {
  int64_t size, down, across, count, block;
};

Tiles tiles_of(const WinogradCall& call, const WinogradWeights& weights) {
  const int64_t tile = weights.tile();
  const auto tiles_along = [&](int64_t length) { return (length + tile - 1) / tile; };
  Tiles tiles{tile + kTaps - 1, tiles_along(call.to.height), tiles_along(call.to.width), 0, 0};
  tiles.count = call.images * tiles.down * tiles.across;
  const int64_t bytes = square(tiles.size) * (weights.in_channels() + weights.out_channels()) *
                        static_cast<int64_t>(sizeof(float));
  const int64_t wanted =
      std::clamp(static_cast<int64_t>(weights.bytes()) / 2, kBlockBytes, kMostBlockBytes);
  tiles.block = std::max(wanted / bytes / kRowsOfGemm, int64_t{1}) * kRowsOfGemm;
  return tiles;
}

// How the tiles are cut into blocks. If threads take blocks, all get as many of them.
struct Blocks {
  const Tiles& tiles;
  const bool are_of_threads;
  const int64_t count;

  Blocks(const Tiles& all, bool of_threads)
      : tiles(all), are_of_threads(of_threads), count(count_of(all, of_threads)) {}

  int64_t first_of(int64_t block) const {
    return are_of_threads ? block * tiles.count / count
                          : std::min(block * tiles.block, tiles.count);
  }

 private:
  static int64_t count_of(const Tiles& tiles, bool of_threads) {
    const int64_t blocks = divide_up(tiles.count, tiles.block);
    return of_threads ? std::min(round_up(blocks, parallel_threads()), tiles.count / kFewestTiles)
                      : blocks;
  }
};

// The first pixel of a tile in dst.
struct Place {
  int64_t image, y, x;
};
Place place_of(const Tiles& tiles, int64_t tile, int64_t number) {
  const int64_t row = number / tiles.across;
  return {row / tiles.down, row % tiles.down * tile, number % tiles.across * tile};
}

WinogradPixels pixels_of(const WinogradCall& call, const Place& place, int64_t size) {
  WinogradPixels pixels{};
  const auto& from = call.from;
  const float* const image = call.src + place.image * from.image;
  for (int64_t a = 0; a < size; ++a) {
    const int64_t y = place.y + a - call.top;
    for (int64_t b = 0; b < size; ++b) {
      const int64_t x = place.x + b - call.left;
      if (0 <= y && y < from.height && 0 <= x && x < from.width) {
        pixels[static_cast<size_t>(a * size + b)] = image + (y * from.width + x) * from.pixel;
      }
    }
  }
  return pixels;
}

WinogradDstTile dst_tile(const WinogradCall& call, const Place& place, int64_t tile) {
  const auto& to = call.to;
  WinogradDstTile found{};
  found.bias = call.bias;
  if (call.addend != nullptr) {
    found.addend = call.addend + place.image * call.addend_image + place.y * call.addend_row +
                   place.x * call.addend_pixel;
  }
  found.dst = call.dst + place.image * to.image + (place.y * to.width + place.x) * to.pixel;
  found.rows = std::min(tile, to.height - place.y);
  found.columns = std::min(tile, to.width - place.x);
  found.dst_row = to.width * to.pixel;
  found.dst_pixel = to.pixel;
  found.addend_row = call.addend_row;
  found.addend_pixel = call.addend_pixel;
  found.lowest = call.lowest;
  return found;
}

}  // namespace

std::span<const KernelRow<WinogradFunction>> winograd_kernels() { return kRows; }

bool winograd_threads_take_blocks(int64_t tiles, size_t weight_bytes) {
  constexpr size_t kMostBytes = size_t{4} << 20;
  const int64_t threads = parallel_threads();
  return threads > 1 && weight_bytes <= kMostBytes && tiles >= threads * kFewestTiles;
}

WinogradWeights::WinogradWeights(const float* weights, const Strides& strides, int64_t out_channels,
                                 int64_t in_channels, int64_t tile)
    : out_(out_channels), in_(in_channels), tile_(tile) {
  // A row of elements at a time: zeroing fresh pages takes longer than transforming again.
  const int64_t size = tile + kTaps - 1, matrix = out_ * in_;
  const auto memory = aligned_block(static_cast<size_t>(size * matrix) * sizeof(float));
  auto* const transformed = reinterpret_cast<float*>(memory.get());
  for (int64_t a = 0; a < size; ++a) {
    parallel_for(0, out_, 1, [&](int64_t begin, int64_t end) {
      for (int64_t o = begin; o < end; ++o) {
        for (int64_t i = 0; i < in_; i += kLanes) {
          transform_row(weights + o * strides.out + i * strides.in, strides,
                        std::min(kLanes, in_ - i), tile, a, transformed + o * in_ + i, matrix);
        }
      }
    });
    for (int64_t b = 0; b < size; ++b) {
      packed_.emplace_back(GemmMatrix{transformed + b * matrix, DataType::f32, 1, in_, 0}, in_,
                           out_);
    }
  }
}

size_t WinogradWeights::bytes(int64_t out_channels, int64_t in_channels, int64_t tile) {
  return static_cast<size_t>(square(tile + kTaps - 1) * out_channels * in_channels) * sizeof(float);
}

size_t WinogradWeights::bytes() const {
  size_t found = 0;
  for (const auto& each : packed_) {
    found += each.bytes();
  }
  return found;
}

void winograd(const WinogradCall& call, const WinogradWeights& weights) {
  winograd(call, weights, first_usable(winograd_kernels()).function);
}

void winograd(const WinogradCall& call, const WinogradWeights& weights, WinogradFunction* row) {
  const int64_t tile = weights.tile(), in = weights.in_channels(), out = weights.out_channels();
  const auto& transforms = tile == 2 ? row().of_2 : row().of_4;
  const Tiles tiles = tiles_of(call, weights);
  const int64_t elements = square(tiles.size);
  const auto grain = [&](int64_t channels) {
    return std::max<int64_t>(1, kGrain / (elements * channels));
  };
  const auto run_block = [&](int64_t first, int64_t count) {
    auto* const transformed = static_cast<float*>(
        scratch(ScratchSlot::accumulator,
                static_cast<size_t>(elements * count * (in + out)) * sizeof(float)));
    float* const products = transformed + elements * count * in;
    parallel_for(0, count, grain(in), [&](int64_t begin, int64_t end) {
      for (int64_t t = begin; t < end; ++t) {
        const auto place = place_of(tiles, tile, first + t);
        transforms.src({pixels_of(call, place, tiles.size), transformed + t * in, count * in, in});
      }
    });
    for (int64_t k = 0; k < elements; ++k) {
      GemmCall product;
      product.M = count;
      product.N = out;
      product.K = in;
      product.a = {transformed + k * count * in, DataType::f32, in, 1, 0};
      product.dst = {products + k * count * out, DataType::f32, out, 0};
      product.packed = &weights.element(static_cast<size_t>(k));
      gemm(product);
    }
    parallel_for(0, count, grain(out), [&](int64_t begin, int64_t end) {
      for (int64_t t = begin; t < end; ++t) {
        auto to = dst_tile(call, place_of(tiles, tile, first + t), tile);
        to.products = products + t * out;
        to.stride = count * out;
        to.channels = out;
        transforms.dst(to);
      }
    });
  };
  const Blocks blocks(tiles, winograd_threads_take_blocks(tiles.count, weights.bytes()));
  const auto run_blocks = [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      run_block(blocks.first_of(i), blocks.first_of(i + 1) - blocks.first_of(i));
    }
  };
  if (blocks.are_of_threads) {
    parallel_for(0, blocks.count, 1, run_blocks);  // a block's own loops run on its thread
  } else {
    run_blocks(0, blocks.count);
  }
}

}  // namespace cpuaccel::kernels
