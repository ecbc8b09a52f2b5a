#include "kernels/gemm/skinny.h"

#include <algorithm>

#include "kernels/gemm/blocking.h"
#include "kernels/gemm/edges.h"
#include "kernels/gemm/pieces.h"

namespace cpuaccel::kernels {
namespace {

// Columns of B that pass by all rows of A together: 12 of kDotK floats are 3/4 of L1. Tiles are 3
// or 4 of them wide.
constexpr int64_t kDotBlock = 12;
constexpr int64_t kDotK = 512;
// Bytes of B that are worth a thread.
constexpr int64_t kDotGrain = 1 << 18;

}  // namespace

void gemm_dot(const GemmCall& call, const GemmKernels& kernels) {
  const GemmMatrix& b = call.b;
  const int64_t size = gemm_type_size(b.type);
  // With one tile of rows nothing of B is read twice.
  const int64_t kc = call.M <= 4 ? call.K : even_part(call.K, g_tune[7], 16);
  const int64_t blocks = divide_up(call.N, kDotBlock);
  const int64_t grain = divide_up(kDotGrain, call.K * size * kDotBlock * divide_up(call.M, 8));
  for (int64_t g = 0; g < call.batch; ++g) {
    const GemmRows a = rows(call, kernels, {g, 0, call.M, 0, call.K, 0, nullptr});
    const auto* columns = static_cast<const char*>(b.data) + g * b.batch_stride * size;
    for_each_piece(blocks, grain, [&](int64_t block) {
      const int64_t n0 = block * kDotBlock;
      const int64_t n = std::min(kDotBlock, call.N - n0);
      const GemmResult result(call, kernels, {g, 0, call.M, n0, n});
      bool add = result.start();
      const auto block_at = [&](int64_t column, int64_t k) {
        return columns + (column * b.column_stride + k) * size;
      };
      for (int64_t k = 0; k < call.K; k += kc) {
        const char* next = k + kc < call.K                ? block_at(n0, k + kc)
                           : n0 + kDotBlock < call.N ? block_at(n0 + kDotBlock, 0)
                                                     : nullptr;
        kernels.dot({call.M, n, std::min(kc, call.K - k), a.data + k, a.stride,
                     block_at(n0, k), b.type, b.column_stride, result.data(), result.stride(), 1,
                     call.alpha, add, kc < call.K && g_tune[6] ? next : nullptr});
        add = true;
      }
      result.finish();
    });
  }
}

}  // namespace cpuaccel::kernels
