#include "kernels/gemm/avx512.h"
#include "kernels/gemm/dot.h"
#include "kernels/gemm/tile.h"
#include "kernels/gemm_bf16/gemm_bf16.h"
#include "kernels/gemm_bf16/pairs_avx512bf16.h"

namespace cpuaccel::kernels {
namespace {

// Sixteen pairs instead of sixteen floats: loads and broadcasts move bits, and a multiply-add adds
// two products of bf16 to an f32.
struct Avx512Pairs : Avx512Floats {
  CPUACCEL_INLINE static void accumulate(Vector& sum, Vector a, Vector b) {
    asm("vdpbf16ps %2, %1, %0" : "+v"(sum) : "v"(a), "v"(b));
  }
};

// Converts floats to another type; to bf16 by the instruction for it.
void store_rounded(const float* src, int64_t count, void* dst, DataType type) {
  if (type != DataType::bf16) {
    store_run<Elements8>(src, count, dst, type);
    return;
  }
  auto* to = static_cast<uint16_t*>(dst);
  for (int64_t i = 0; i < count; i += 2 * kPairs) {
    const int64_t left = count - i;
    const uint32_t mask = left >= 32 ? ~0u : (1u << left) - 1;
    _mm512_mask_storeu_epi16(to + i, mask, PairsOfF32::along(src + i, left));
  }
}

const GemmKernels& pair_kernels() {
  using V = Avx512Pairs;
  static constexpr GemmKernels kernels{
      .mr = V::kRows,
      .nr = V::kVectors * V::kLanes,
      .dot_rows = V::DotTiles::kRows,
      .dot_most = V::DotTiles::kMost,
      .tile = tiles_of<V, V::F32>,
      .dot = dot_elements<V, V::F32>,
      .rows = nullptr,  // B is packed, or goes to dot
      .load = load_block<Elements8>,
      .panels = load_panel_block<Elements8>,
      .store = store_rounded,
      .pixels = nullptr,  // there are no images of pairs
  };
  return kernels;
}

}  // namespace

const GemmBf16Kernels& gemm_bf16_x86_avx512bf16() {
  static constexpr GemmBf16Kernels kernels{.pairs = pair_kernels,
                                           .together = 1,
                                           .interleaved = 1,
                                           .rows = pair_rows<1>,
                                           .tile_rows = pair_rows<1>,
                                           .panels = pair_panels<1>};
  return kernels;
}

}  // namespace cpuaccel::kernels
