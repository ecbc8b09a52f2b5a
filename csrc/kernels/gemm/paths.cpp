#include "kernels/gemm/paths.h"

#include <array>

#include "kernels/gemm/blocked.h"
#include "kernels/gemm/blocking.h"
#include "kernels/gemm/skinny.h"

namespace cpuaccel::kernels {
namespace {

// Up to here dot products were faster than packing B, whether B came from L3 or from memory (Zen
// 3).
constexpr int64_t kDotRowsMost = 48;
// With so few columns a tile is mostly padding.
constexpr int64_t kDotColumnsMost = 6;

bool plain_b(const GemmCall& call) {
  return call.pack_b.write == nullptr && call.packed == nullptr;
}

// The small operand may have to be copied as a whole.
bool fits_scratch(int64_t rows, int64_t K) { return K <= kPackedFloats / rows - 32; }

bool takes_rows(const GemmCall& call) {
  return call.M <= kRowsMost && plain_b(call) && call.b.column_stride == 1 &&
         fits_scratch(call.M, call.K);
}

bool takes_dot(const GemmCall& call) {
  return call.M <= kDotRowsMost && plain_b(call) && call.b.row_stride == 1 &&
         fits_scratch(call.M, call.K);
}

bool takes_dot_columns(const GemmCall& call) {
  return call.N <= kDotColumnsMost && plain_b(call) && call.pack_a.write == nullptr &&
         call.a.column_stride == 1 && fits_scratch(call.N, call.K);
}

bool takes_any(const GemmCall& /*call*/) { return true; }

// In order; the last takes everything.
constexpr std::array kPaths{
    GemmPath{"dot", takes_dot, gemm_dot},
    GemmPath{"dot_columns", takes_dot_columns, gemm_dot_columns},
    GemmPath{"rows", takes_rows, gemm_rows},
    GemmPath{"blocked", takes_any, gemm_blocked},
};

}  // namespace

const GemmPath& gemm_path(const GemmCall& call) {
  for (const auto& path : kPaths) {
    if (path.takes(call)) {
      return path;
    }
  }
  return kPaths.back();
}

}  // namespace cpuaccel::kernels
