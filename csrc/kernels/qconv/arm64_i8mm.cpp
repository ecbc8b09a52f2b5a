#include "kernels/dot4/i8mm.h"
#include "kernels/qconv/matrix.h"

namespace cpuaccel::kernels {

void qconv_arm64_i8mm(const QconvCall& call, const QconvPanel& panel) {
  qconv_matrix_panel<I8mmDot4>(call, panel);
}

}  // namespace cpuaccel::kernels
