#include "kernels/dot4/i8mm.h"
#include "kernels/dwconv/impl.h"

namespace cpuaccel::kernels {

void dwconv_arm64_i8mm(const DwconvCall& call, int64_t n, int64_t oh, int64_t rows, void* scratch) {
  dwconv_rows<I8mmDot4>(call, n, oh, rows, scratch);
}

}  // namespace cpuaccel::kernels
