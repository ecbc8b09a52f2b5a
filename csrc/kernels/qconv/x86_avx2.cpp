#include "kernels/dot4/avx2.h"
#include "kernels/qconv/impl.h"

namespace cpuaccel::kernels {

void qconv_x86_avx2(const QconvCall& call, const QconvPanel& panel) {
  const bool low = panel.excess_first != nullptr;
  switch (call.weights->form) {
    case QconvForm::whole:
      return low ? qconv_panel<Avx2Low>(call, panel) : qconv_panel<Avx2Dot4>(call, panel);
    case QconvForm::pairs:
      return low ? qconv_panel<Avx2LowPairs>(call, panel) : qconv_panel<Avx2Pairs>(call, panel);
    case QconvForm::matched:
      return low ? qconv_panel<Avx2LowMatched>(call, panel)
                 : qconv_panel<Avx2Dot4Matched>(call, panel);
  }
}

}  // namespace cpuaccel::kernels
