#include "kernels/gemm/paths.h"

#include <array>

#include "base/isa.h"
#include "kernels/gemm/blocked.h"
#include "kernels/gemm/blocking.h"
#include "kernels/gemm/skinny.h"

namespace cpuaccel::kernels {
namespace {

// With at most this many columns, a tile is mostly padding.
constexpr int64_t kDotColumnsMost = 6;

bool plain_b(const GemmCall& call) {
  return call.pack_b.write == nullptr && call.packed == nullptr;
}

// A copy of the whole small operand may be needed.
bool fits_scratch(int64_t rows, int64_t K) { return K <= kPackedFloats / rows - 32; }

bool takes_rows(const GemmCall& call, const GemmKernels& /*kernels*/) {
  return call.M <= kRowsMost && plain_b(call) && call.b.column_stride == 1 &&
         fits_scratch(call.M, call.K);
}

// Packing few weights takes less time than the lane sums of many short dot products: with 9 to 48
// rows, on a core of Zen 4, it is 1.1 to 1.7 times as fast.
bool packs_soon(const GemmCall& call) {
  constexpr int64_t kRows = 8, kWeights = 8192;
  return isa_usable(Isa::avx512) && call.b.type == DataType::f32 && call.M > kRows &&
         call.K * call.N <= kWeights;
}

bool takes_dot(const GemmCall& call, const GemmKernels& kernels) {
  const DotLimits& most = kernels.dot_most;
  return !packs_soon(call) &&
         call.M <= (call.b.type == DataType::f32 ? most.floats : most.halves) && plain_b(call) &&
         call.b.row_stride == 1 && fits_scratch(call.M, call.K);
}

bool takes_dot_columns(const GemmCall& call, const GemmKernels& /*kernels*/) {
  return call.N <= kDotColumnsMost && plain_b(call) && call.pack_a.write == nullptr &&
         call.a.column_stride == 1 && fits_scratch(call.N, call.K);
}

bool takes_any(const GemmCall& /*call*/, const GemmKernels& /*kernels*/) { return true; }

// In order of preference; the last takes every call.
constexpr std::array kPaths{
    GemmPath{"dot", takes_dot, gemm_dot},
    GemmPath{"dot_columns", takes_dot_columns, gemm_dot_columns},
    GemmPath{"rows", takes_rows, gemm_rows},
    GemmPath{"blocked", takes_any, gemm_blocked},
};

}  // namespace

const GemmPath& gemm_path(const GemmCall& call, const GemmKernels& kernels) {
  for (const auto& path : kPaths) {
    if (path.takes(call, kernels)) {
      return path;
    }
  }
  return kPaths.back();
}

}  // namespace cpuaccel::kernels
