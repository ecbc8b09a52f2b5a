#include "kernels/dot4/dotprod.h"
#include "kernels/qconv/impl.h"

namespace cpuaccel::kernels {

void qconv_arm64_dotprod(const QconvCall& call, const QconvPanel& panel) {
  qconv_panel<DotprodDot4>(call, panel);
}

}  // namespace cpuaccel::kernels
