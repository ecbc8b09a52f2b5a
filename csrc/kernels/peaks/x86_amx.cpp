#include "kernels/amx_tiles.h"
#include "kernels/peaks/peak_kernels.h"

namespace cpuaccel::kernels {
namespace {

constexpr int kSums = 4;
constexpr TileConfig kFullTiles;

// Configures the tiles of this thread and zeroes them; releases them on destruction.
class Tiles {
 public:
  Tiles() {
    use_tiles(kFullTiles);
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    _tile_zero(4);
    _tile_zero(5);
    _tile_zero(6);
    _tile_zero(7);
  }
  ~Tiles() { _tile_release(); }
  Tiles(const Tiles&) = delete;
  Tiles& operator=(const Tiles&) = delete;
};

}  // namespace

int64_t peak_int8_tiles_x86_amx(int64_t iterations) {
  const Tiles tiles;
  for (int64_t i = 0; i < iterations; ++i) {
    _tile_dpbusd(0, 4, 6);
    _tile_dpbusd(1, 4, 7);
    _tile_dpbusd(2, 5, 6);
    _tile_dpbusd(3, 5, 7);
  }
  return iterations * kSums * kTileRows * kTileRows * kTileBytes;
}

int64_t peak_bf16_tiles_x86_amx(int64_t iterations) {
  const Tiles tiles;
  for (int64_t i = 0; i < iterations; ++i) {
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
  return iterations * kSums * kTileRows * kTileRows * kTileBytes / 2;
}

}  // namespace cpuaccel::kernels
