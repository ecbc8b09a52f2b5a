#include "kernels/dot4/dotprod.h"
#include "kernels/dwconv/impl.h"

namespace cpuaccel::kernels {

void dwconv_arm64_dotprod(const DwconvCall& call, int64_t n, int64_t oh, int64_t rows,
                          void* scratch) {
  dwconv_rows<DotprodDot4>(call, n, oh, rows, scratch);
}

}  // namespace cpuaccel::kernels
