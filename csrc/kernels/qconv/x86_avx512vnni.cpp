#include "kernels/dot4/avx512vnni.h"
#include "kernels/qconv/deep_avx512vnni.h"
#include "kernels/qconv/impl.h"
#include "kernels/qconv/pointwise_avx512vnni.h"

namespace cpuaccel::kernels {

void qconv_x86_avx512vnni(const QconvCall& call, const QconvPanel& panel) {
  if (!qconv_pointwise(call, panel) && !qconv_deep(call, panel)) {
    qconv_panel<Avx512VnniDot4>(call, panel);
  }
}

}  // namespace cpuaccel::kernels
