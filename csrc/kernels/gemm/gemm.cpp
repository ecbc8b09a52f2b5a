#include "kernels/gemm/gemm.h"

#include <algorithm>
#include <array>

#include "base/parallel.h"
#include "kernels/gemm/blocked.h"
#include "kernels/gemm/blocking.h"
#include "kernels/gemm/edges.h"
#include "kernels/gemm/skinny.h"

namespace cpuaccel::kernels {
namespace {

#define CPUACCEL_ROW(name, isa) KernelRow<GemmFunction>{#name, isa, gemm_##name},
constexpr std::array kRows{CPUACCEL_GEMM_KERNELS(CPUACCEL_ROW)};
#undef CPUACCEL_ROW

// dst = beta * c + bias
void only_start(const GemmCall& call, const GemmKernels& kernels) {
  constexpr int64_t kElements = 32768;
  const int64_t rows = std::max<int64_t>(1, kElements / call.N);
  for (int64_t g = 0; g < call.batch; ++g) {
    parallel_for(0, call.M, rows, [&](int64_t begin, int64_t end) {
      for (int64_t m = begin; m < end; m += rows) {
        const int64_t height = std::min(rows, end - m);
        const GemmResult result(call, kernels, {g, m, height, 0, call.N});
        if (!result.start()) {
          for (int64_t i = 0; i < height; ++i) {
            std::fill_n(result.data() + i * result.stride(), call.N, 0.0f);
          }
        }
        result.finish();
      }
    });
  }
}

}  // namespace

std::span<const KernelRow<GemmFunction>> gemm_kernels() { return kRows; }

void gemm(const GemmCall& call) { gemm(call, first_usable(gemm_kernels()).function); }

void gemm(const GemmCall& call, GemmFunction* row) {
  if (call.M == 0 || call.N == 0 || call.batch == 0) {
    return;
  }
  const GemmKernels& kernels = row();
  if (call.K == 0 || call.alpha == 0.0f) {
    only_start(call, kernels);
    return;
  }
  if (call.M <= g_tune[5] && call.b.row_stride == 1 && call.pack_b.write == nullptr) {
    gemm_dot(call, kernels);
    return;
  }
  gemm_blocked(call, kernels);
}

}  // namespace cpuaccel::kernels
