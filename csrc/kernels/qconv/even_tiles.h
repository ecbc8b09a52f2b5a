// How a panel's pixels are cut into tiles.
#pragma once

#include <cstdint>

#include "kernels/round_up.h"

namespace cpuaccel::kernels {

// As few tiles of at most `tallest` pixels as possible, whose heights differ by one at most: a last
// tile of one pixel would take as long as one of four.
struct EvenTiles {
  int64_t count, least, taller;

  EvenTiles(int64_t pixels, int64_t tallest)
      : count(divide_up(pixels, tallest)), least(pixels / count), taller(pixels % count) {}

  int64_t height(int64_t tile) const { return least + (tile < taller ? 1 : 0); }
};

}  // namespace cpuaccel::kernels
