#include "kernels/dot4/avxvnni.h"
#include "kernels/qconv/impl.h"

namespace cpuaccel::kernels {

void qconv_x86_avxvnni(const QconvCall& call, const QconvPanel& panel) {
  qconv_panel<AvxVnniDot4>(call, panel);
}

}  // namespace cpuaccel::kernels
