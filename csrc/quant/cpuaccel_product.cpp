#include "quant/cpuaccel_product.h"

#include <algorithm>
#include <array>
#include <string>

#include "kernels/qgemm/qgemm.h"
#include "quant/cpuaccel_kernel_base.h"

namespace cpuaccel::quant {
namespace {

constexpr std::array<int64_t, 3> kOnes{1, 1, 1};

kernels::QgemmWeights pack(const LayerShape& shape, const Int8Weights& values) {
  return kernels::qgemm_pack(
      {.data = values.data, .K = shape.IC, .N = shape.OC, .k_stride = 1, .n_stride = shape.IC});
}

class CpuaccelProduct final : public PackedCpuaccelKernel<kernels::QgemmWeights> {
 public:
  CpuaccelProduct(const LayerWeight& layer, const Int8Weights& values)
      : PackedCpuaccelKernel(layer, pack(layer.shape, without_zero_points(layer, values, 1))) {}

  Int8Weights unpack() override {
    const auto plain = new_weights(layer_.int8_bytes(), [this](int8_t* values) {
      kernels::qgemm_unpack(packed_, values, 1, layer_.shape.IC);
    });
    return without_zero_points(layer_, plain, -1);
  }

  std::string implementation() override {
    const auto rows = kernels::qgemm_kernels();
    const auto row = std::ranges::find(rows, packed_.row, [](const auto& r) { return r.function; });
    return std::string("qgemm:") + row->name;
  }

 protected:
  const char* run_family(const QuantCall& call, const Result& result) override {
    kernels::QgemmCall product;
    product.weights = &packed_;
    product.M = call.N * volume(call.dst_dims);
    product.src = source(call);
    result.fill(call, product.dst);
    product.dst.row_stride = packed_.N;
    product.epilogue = kernel_epilogue(call);
    return kernels::qgemm(product);
  }

 private:
  kernels::QgemmSrc source(const QuantCall& call) const {
    kernels::QgemmSrc src;
    src.row_stride = packed_.K;
    src.zero_point = call.src_zero_point;
    if (call.src_f32 != nullptr) {
      src.data = call.src_f32;
      src.type = kernels::QgemmSrcType::f32_to_u8;
      src.scale = call.src_scale;
    } else {
      src.data = call.src;
      src.type = call.s8 ? kernels::QgemmSrcType::s8 : kernels::QgemmSrcType::u8;
    }
    return src;
  }
};

}  // namespace

bool is_cpuaccel_product(const LayerShape& shape) {
#if defined(__aarch64__)
  constexpr bool kHasNoLibrary = true;
#else
  // On x86 the rows of provider_rows.cpp choose among FBGEMM, oneDNN and qconv.
  constexpr bool kHasNoLibrary = false;
#endif
  return kHasNoLibrary && kernels::qgemm_kernels().size() > 1 &&
         shape.kind != LayerKind::conv_transpose && shape.groups == 1 && shape.taps() == 1 &&
         shape.stride == kOnes && shape.padding == std::array<int64_t, 3>{};
}

std::unique_ptr<Kernel> make_cpuaccel_product(const LayerWeight& layer, const Int8Weights& values) {
  return std::make_unique<CpuaccelProduct>(layer, values);
}

}  // namespace cpuaccel::quant
