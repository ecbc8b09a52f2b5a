#include "kernels/dot4/neon.h"
#include "kernels/qconv/impl.h"

namespace cpuaccel::kernels {

void qconv_arm64_neon(const QconvCall& call, const QconvPanel& panel) {
  qconv_panel<NeonDot4>(call, panel);
}

}  // namespace cpuaccel::kernels
