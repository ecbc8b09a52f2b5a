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

// A tile by its number, which intrinsics take as a literal alone. Rows are `stride` bytes apart.
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
