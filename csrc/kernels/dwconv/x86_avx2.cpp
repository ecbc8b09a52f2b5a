#include "kernels/dot4/avx2.h"
#include "kernels/dwconv/direct_avx2.h"
#include "kernels/dwconv/impl.h"

namespace cpuaccel::kernels {

void dwconv_x86_avx2(const DwconvCall& call, int64_t n, int64_t oh, int64_t rows, void* scratch) {
  if (dwconv_pairs_rows(call.weights->shape)) {
    dwconv_rows<Avx2Dot4>(call, n, oh, rows, scratch);
  } else {
    dwconv_direct(call, n, oh, rows, scratch);
  }
}

}  // namespace cpuaccel::kernels
