#include "kernels/gemm_bf16/packed.h"

#include <algorithm>

#include "kernels/gemm/edges.h"
#include "kernels/gemm/pieces.h"

namespace cpuaccel::kernels {
namespace {

constexpr int64_t kGrainPanels = 2;

int64_t panel_count(int64_t N, int64_t nr) { return (N + nr - 1) / nr; }

}  // namespace

GemmBf16Packed::GemmBf16Packed(void* memory, int64_t K, int64_t N, GemmBf16Function* for_row)
    : K_(K), row_(for_row), pairs_(memory, DataType::f32, for_row().count(K), N, for_row().pairs) {}

void GemmBf16Packed::pack(const GemmMatrix& b) {
  const GemmBf16Kernels& kernels = row_();
  const int64_t nr = kernels.pairs().nr, kc = pairs_.kc(), count = pairs_.K();
  for_each_piece(panel_count(N(), nr), kGrainPanels, [&](int64_t piece) {
    const int64_t n = piece * nr;
    for (int64_t k = 0; k < count; k += kc) {
      const int64_t rows = std::min(2 * std::min(kc, count - k), K_ - 2 * k);
      auto* to = reinterpret_cast<float*>(const_cast<char*>(pairs_.panel(k, n)));
      kernels.panels({matrix_at(b, 0, 2 * k, n), b.type, b.row_stride, b.column_stride, rows,
                      std::min(nr, N() - n), to, 0},
                     nr);
    }
  });
}

void GemmBf16Packed::unpack(uint16_t* dst, int64_t row_stride, int64_t column_stride) const {
  const GemmBf16Kernels& kernels = row_();
  const int64_t nr = kernels.pairs().nr, kc = pairs_.kc();
  const int64_t together = 2 * kernels.interleaved;  // neighboring values of a column
  for_each_piece(panel_count(N(), nr), kGrainPanels, [&](int64_t piece) {
    const int64_t first = piece * nr;
    for (int64_t n = first; n < std::min(first + nr, N()); ++n) {
      for (int64_t k = 0; k < K_; ++k) {
        const int64_t block = k / (2 * kc) * kc, in_block = k - 2 * block;
        const auto* panel = reinterpret_cast<const uint16_t*>(pairs_.panel(block, first));
        dst[k * row_stride + n * column_stride] =
            panel[in_block / together * together * nr + (n - first) * together +
                  in_block % together];
      }
    }
  });
}

}  // namespace cpuaccel::kernels
