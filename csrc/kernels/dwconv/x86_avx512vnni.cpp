#include "kernels/dot4/avx512vnni.h"
#include "kernels/dwconv/columns_avx512vnni.h"
#include "kernels/dwconv/impl.h"

namespace cpuaccel::kernels {

void dwconv_x86_avx512vnni(const DwconvCall& call, int64_t n, int64_t oh, int64_t rows,
                           void* scratch) {
  if (!dwconv_columns(call, n, oh, rows, scratch)) {
    dwconv_rows<Avx512VnniDot4>(call, n, oh, rows, scratch);
  }
}

}  // namespace cpuaccel::kernels
