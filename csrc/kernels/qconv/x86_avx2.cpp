#include "kernels/dot4/avx2.h"
#include "kernels/qconv/impl.h"

namespace cpuaccel::kernels {

void qconv_x86_avx2(const QconvCall& call, const QconvPanel& panel) {
  if (call.weights->form == QconvForm::pairs) {
    qconv_panel<Avx2Pairs>(call, panel);
  } else if (panel.excess_first != nullptr) {
    qconv_panel<Avx2Low>(call, panel);
  } else {
    qconv_panel<Avx2Dot4>(call, panel);
  }
}

}  // namespace cpuaccel::kernels
