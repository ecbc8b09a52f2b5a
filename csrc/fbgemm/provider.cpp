#include "fbgemm/provider.h"

#include "base/isa.h"
#include "fbgemm/kernel_base.h"
#include "quant/external_provider.h"

namespace cpuaccel::fbgemm_provider {

bool gets_wrong(const LayerShape& shape) {
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

bool has_fbgemm_vnni() {
  const auto isa = fbgemm::fbgemmInstructionSet();
  return has_vnni() &&
         (isa == fbgemm::inst_set_t::avx512_vnni || isa == fbgemm::inst_set_t::avx512_vnni_ymm);
}

std::vector<int32_t> column_offsets(const LayerWeight& layer, const int8_t* rows) {
  const int64_t OC = layer.shape.OC, count = layer.int8_bytes() / OC;
  std::vector<int32_t> offsets(static_cast<size_t>(OC));
  for (int64_t oc = 0; oc < OC; ++oc) {
    int32_t sum = 0;
    for (int64_t i = oc * count; i < (oc + 1) * count; ++i) {
      sum += rows[i];
    }
    const auto channel = static_cast<size_t>(oc);
    offsets[channel] = sum - layer.zero_points[channel] * static_cast<int32_t>(count);
  }
  return offsets;
}

namespace {

const char* unsupported_reason(const LayerWeight& layer) {
  if (!isa_usable(Isa::avx2) || !fbgemm::fbgemmSupportedCPU()) {
    return "FBGEMM needs AVX2";
  }
  if (layer.shape.kind == LayerKind::conv_transpose && layer.per_channel) {
    return "FBGEMM has no transposed convolution for per-channel weights";
  }
  if (gets_wrong(layer.shape)) {
    return "FBGEMM's direct transposed convolution gives wrong results";
  }
  return nullptr;
}

std::unique_ptr<Kernel> make_kernel(const LayerWeight& layer, const Int8Weights& values) {
  return layer.shape.kind == LayerKind::linear ? make_linear(layer, values)
                                               : make_convolution(layer, values);
}

bool is_exact(const LayerShape& shape) { return has_fbgemm_vnni() && shape.groups == 1; }

constexpr quant::ExternalProvider kFunctions{unsupported_reason, make_kernel, is_exact, gets_wrong};
const quant::RegisterProvider kRegistered(Provider::fbgemm, kFunctions);

}  // namespace

}  // namespace cpuaccel::fbgemm_provider
