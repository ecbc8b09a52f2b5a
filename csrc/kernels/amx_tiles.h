// AMX tile configuration (ldtilecfg), which each thread sets before it uses tiles. Included by ISA
// sources only.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "kernels/inline.h"

namespace cpuaccel::kernels {
namespace {

inline constexpr int kTileRows = 16;
inline constexpr int kTileBytes = 64;  // per row

// The operand of ldtilecfg, palette 1: all tiles are 64 bytes wide.
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

// Configures the tiles unless the thread has this configuration already: setting it takes some 50
// ns, reading it 5. Inline assembly, because GCC's intrinsics declare that they access eight bytes
// only.
CPUACCEL_INLINE void use_tiles(const TileConfig& config) {
  alignas(64) TileConfig now;
  asm volatile("sttilecfg %0" : "=m"(now));
  if (_mm512_cmpneq_epi32_mask(_mm512_load_si512(&now), _mm512_load_si512(&config)) != 0) {
    asm volatile("ldtilecfg %0" : : "m"(config));
  }
}

// A tile register by its number, which the intrinsics take as a literal only. Rows are `stride`
// bytes apart.
template <int kNumber>
struct Tile {
  CPUACCEL_INLINE static void zero() { asm volatile("tilezero %%tmm%c0" : : "i"(kNumber)); }
  CPUACCEL_INLINE static void load(const float* src, int64_t stride) {
    asm volatile("tileloadd (%0,%1,1), %%tmm%c2"
                 :
                 : "r"(src), "r"(stride), "i"(kNumber)
                 : "memory");
  }
  CPUACCEL_INLINE static void store(float* dst, int64_t stride) {
    asm volatile("tilestored %%tmm%c2, (%0,%1,1)"
                 :
                 : "r"(dst), "r"(stride), "i"(kNumber)
                 : "memory");
  }
};

}  // namespace
}  // namespace cpuaccel::kernels
