#include "quant/fbgemm_kernel.h"

#include "base/isa.h"
#include "quant/fbgemm_kernel_base.h"

namespace cpuaccel::quant {

bool fbgemm_gets_wrong(const LayerShape& shape) {
  if (shape.kind != LayerKind::conv_transpose || shape.spatial != 2) {
    return false;
  }
  const auto pair = [](const std::array<int64_t, 3>& values) {
    return std::array{static_cast<int>(values[0]), static_cast<int>(values[1])};
  };
  const auto padding = pair(shape.padding);
  const fbgemm::conv_param_t<2> of_one_pixel(
      1, static_cast<int>(shape.IC), static_cast<int>(shape.OC), {1, 1},
      static_cast<int>(shape.groups), pair(shape.kernel), pair(shape.stride),
      {padding[0], padding[1], padding[0], padding[1]}, pair(shape.dilation),
      pair(shape.output_padding), true);
  return fbgemm::ConvFastPath(of_one_pixel) == fbgemm::optimized_conv_t::directconv;
}

bool fbgemm_has_vnni() {
  const auto isa = fbgemm::fbgemmInstructionSet();
  return has_vnni() &&
         (isa == fbgemm::inst_set_t::avx512_vnni || isa == fbgemm::inst_set_t::avx512_vnni_ymm);
}

const char* fbgemm_unsupported_reason(const LayerWeight& layer) {
  if (!isa_usable(Isa::avx2) || !fbgemm::fbgemmSupportedCPU()) {
    return "FBGEMM needs AVX2";
  }
  if (layer.shape.kind == LayerKind::conv_transpose && layer.per_channel) {
    return "FBGEMM has no transposed convolution for per-channel weights";
  }
  if (fbgemm_gets_wrong(layer.shape)) {
    return "FBGEMM's direct transposed convolution gives wrong results";
  }
  return nullptr;
}

std::unique_ptr<Kernel> make_fbgemm_kernel(const LayerWeight& layer,
                                           const at::Tensor& int8_values) {
  return layer.shape.kind == LayerKind::linear ? make_fbgemm_linear(layer, int8_values)
                                               : make_fbgemm_conv(layer, int8_values);
}

}  // namespace cpuaccel::quant
