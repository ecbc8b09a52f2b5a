// The shapes of AMX's tiles, which a thread sets before it uses them. Included by ISA sources only.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "kernels/inline.h"

namespace cpuaccel::kernels {
namespace {

inline constexpr int kTileRows = 16;
inline constexpr int kTileBytes = 64;  // of a row

// What ldtilecfg reads, palette 1: all tiles 64 bytes wide.
struct alignas(64) TileConfig {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t rows[16] = {};

  constexpr TileConfig() {
    for (int tile = 0; tile < 8; ++tile) {
      row_bytes[tile] = kTileBytes;
      rows[tile] = kTileRows;
    }
  }
};
static_assert(sizeof(TileConfig) == 64);

// Sets the shapes unless they are the thread's already: setting takes some 50 ns, asking 5. GCC's
// intrinsics say that they read or write eight bytes.
CPUACCEL_INLINE void use_tiles(const TileConfig& config) {
  alignas(64) TileConfig now;
  asm volatile("sttilecfg %0" : "=m"(now));
  if (_mm512_cmpneq_epi32_mask(_mm512_load_si512(&now), _mm512_load_si512(&config)) != 0) {
    asm volatile("ldtilecfg %0" : : "m"(config));
  }
}

}  // namespace
}  // namespace cpuaccel::kernels
