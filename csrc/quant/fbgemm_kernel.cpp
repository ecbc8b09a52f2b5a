#include "quant/fbgemm_kernel.h"

#include "base/isa.h"
#include "quant/fbgemm_common.h"

namespace cpuaccel::quant {

const char* fbgemm_refuses(const LayerWeight& layer) {
  if (!isa_usable(Isa::avx2) || !fbgemm::fbgemmSupportedCPU()) {
    return "FBGEMM needs AVX2";
  }
  if (layer.shape.kind == LayerKind::conv_transpose && layer.per_channel) {
    return "FBGEMM has no per-channel transposed convolution";
  }
  return nullptr;
}

std::unique_ptr<Kernel> make_fbgemm_kernel(const LayerWeight& layer,
                                           const at::Tensor& int8_values) {
  return layer.shape.kind == LayerKind::linear ? make_fbgemm_linear(layer, int8_values)
                                               : make_fbgemm_conv(layer, int8_values);
}

}  // namespace cpuaccel::quant
