#include "kernels/dot4/avx2.h"
#include "kernels/dwconv/direct_avx2.h"
#include "kernels/dwconv/impl.h"

namespace cpuaccel::kernels {
namespace {

// Up to this many taps (5x5), reading them anew for each result is faster than interleaving columns
// for all results that share them; at 7x7 it takes 1.08 times as long.
constexpr int64_t kMostDirectTaps = 25;

}  // namespace

void dwconv_x86_avx2(const DwconvCall& call, int64_t n, int64_t oh, int64_t rows, void* scratch) {
  const DwconvShape& shape = call.weights->shape;
  if (shape.KH * shape.KW > kMostDirectTaps && dwconv_pairs_rows(shape)) {
    dwconv_rows<Avx2Dot4>(call, n, oh, rows, scratch);
  } else {
    dwconv_direct(call, n, oh, rows, scratch);
  }
}

}  // namespace cpuaccel::kernels
