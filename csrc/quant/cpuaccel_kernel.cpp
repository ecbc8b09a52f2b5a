#include "quant/cpuaccel_kernel.h"

#include <algorithm>
#include <array>
#include <limits>

#include "base/scratch.h"
#include "kernels/dwconv/dwconv.h"
#include "kernels/lookup_table/lookup_table.h"
#include "kernels/qconv/qconv.h"
#include "kernels/quantize/quantize.h"
#include "quant/cpuaccel_kernel_base.h"
#include "quant/cpuaccel_product.h"
#include "quant/rows_kernel.h"

namespace cpuaccel::quant {
namespace {

kernels::DwconvShape dwconv_shape(const LayerShape& s) {
  return {s.OC,         s.kernel[0],  s.kernel[1],   s.stride[0],  s.stride[1],
          s.padding[0], s.padding[1], s.dilation[0], s.dilation[1]};
}

kernels::QconvShape qconv_shape(const LayerShape& s) {
  return {s.IC,        s.OC,         s.groups,     s.kernel[0],   s.kernel[1],  s.stride[0],
          s.stride[1], s.padding[0], s.padding[1], s.dilation[0], s.dilation[1]};
}

// Linear layers are convolutions of one pixel: LayerShape's unused entries have those values.
bool is_dwconv(const LayerShape& shape) {
  return shape.kind == LayerKind::conv && shape.depthwise();
}

// Maps an int8 byte to the uint8 byte that is 128 more.
constexpr auto kFlip = [] {
  std::array<uint8_t, kernels::kTableEntries> flip{};
  for (size_t i = 0; i < flip.size(); ++i) {
    flip[i] = static_cast<uint8_t>(i ^ 0x80);
  }
  return flip;
}();

// Gives families dwconv and qconv one interface: Weights, Call and functions.
struct Dwconv {
  using Weights = kernels::DwconvWeights;
  using Call = kernels::DwconvCall;
  static Weights pack(const LayerShape& shape, const int8_t* values) {
    return kernels::dwconv_pack(dwconv_shape(shape), values);
  }
  static void unpack(const Weights& packed, int8_t* values) {
    kernels::dwconv_unpack(packed, values);
  }
  static void run(const Call& call) { kernels::dwconv(call); }
  static const char* name() { return kernels::first_usable(kernels::dwconv_kernels()).name; }
  static constexpr const char* kFamily = "dwconv";
};

struct Qconv {
  using Weights = kernels::QconvWeights;
  using Call = kernels::QconvCall;
  static Weights pack(const LayerShape& shape, const int8_t* values) {
    return kernels::qconv_pack(qconv_shape(shape), values, kernels::qconv_form());
  }
  static void unpack(const Weights& packed, int8_t* values) {
    kernels::qconv_unpack(packed, values);
  }
  static void run(const Call& call) { kernels::qconv(call); }
  static const char* name() { return kernels::first_usable(kernels::qconv_kernels()).name; }
  static constexpr const char* kFamily = "qconv";
};

template <typename Family>
class CpuaccelConv final : public PackedCpuaccelKernel<typename Family::Weights> {
  using Base = PackedCpuaccelKernel<typename Family::Weights>;
  using Base::layer_;
  using Base::packed_;

 public:
  CpuaccelConv(const LayerWeight& layer, const Int8Weights& values)
      : Base(layer, Family::pack(layer.shape, without_zero_points(layer, values, 1).data)) {}

  Int8Weights unpack() override {
    const auto plain = new_weights(layer_.int8_bytes(),
                                   [this](int8_t* values) { Family::unpack(packed_, values); });
    return without_zero_points(layer_, plain, -1);
  }

  std::string implementation() override {
    return std::string(Family::kFamily) + ":" + Family::name();
  }

 protected:
  const char* run_family(const QuantCall& call, const typename Base::Result& result) override {
    typename Family::Call c;
    c.weights = &packed_;
    c.N = call.N;
    c.IH = call.src_dims[0];
    c.IW = call.src_dims[1];
    c.OH = call.dst_dims[0];
    c.OW = call.dst_dims[1];
    c.src = call.src_f32 != nullptr ? quantized_src(call) : call.s8 ? flipped_src(call) : call.src;
    c.src_zero_point = call.src_zero_point + Base::shift(call);
    result.fill(call, c.dst);
    c.epilogue = Base::kernel_epilogue(call);
    Family::run(c);
    return nullptr;
  }

 private:
  const uint8_t* quantized_src(const QuantCall& call) const {
    const int64_t count = call.N * layer_.shape.IC;
    uint8_t* src = byte_src(count);
    kernels::quantize_u8(call.src_f32, src, count, call.src_scale, call.src_zero_point);
    return src;
  }

  const uint8_t* flipped_src(const QuantCall& call) const {
    const auto& dims = call.src_dims;
    const int64_t count = call.N * layer_.shape.IC * dims[0] * dims[1] * dims[2];
    uint8_t* src = byte_src(count);
    kernels::lookup_table_u8(call.src, src, count, kFlip.data());
    return src;
  }

  static uint8_t* byte_src(int64_t count) {
    return static_cast<uint8_t*>(scratch(ScratchSlot::quantized_src, static_cast<size_t>(count)));
  }
};

// Whether weights minus their zero points still fit int8.
bool fits_int8(const LayerWeight& layer, const Int8Weights& values) {
  const auto* data = values.data;
  const int64_t count = values.count / layer.shape.OC;
  for (int64_t oc = 0; oc < layer.shape.OC; ++oc) {
    const auto [low, high] = std::minmax_element(data + oc * count, data + (oc + 1) * count);
    const int32_t zero_point = layer.zero_points[static_cast<size_t>(oc)];
    if (*low - zero_point < std::numeric_limits<int8_t>::min() ||
        *high - zero_point > std::numeric_limits<int8_t>::max()) {
      return false;
    }
  }
  return true;
}

}  // namespace

const char* cpuaccel_unsupported_reason(const LayerWeight& layer) {
  const auto& shape = layer.shape;
  if (is_cpuaccel_product(shape)) {
    return nullptr;
  }
  if (shape.kind == LayerKind::conv_transpose || shape.spatial > 2) {
    return "cpuaccel has no kernel for transposed or 3-D convolutions";
  }
  return nullptr;
}

const char* cpuaccel_unsupported_reason(const LayerWeight& layer, const Int8Weights& values) {
  if (!layer.symmetric() && !fits_int8(layer, values)) {
    return "weights minus their zero points do not fit int8";
  }
  if (is_cpuaccel_product(layer.shape)) {
    return nullptr;
  }
  const auto shifted = without_zero_points(layer, values, 1);
  const bool fits = is_dwconv(layer.shape)
                        ? kernels::dwconv_fits(dwconv_shape(layer.shape), shifted.data)
                        : kernels::qconv_fits(qconv_shape(layer.shape), shifted.data);
  return fits ? nullptr : "sums with these weights could overflow int32";
}

std::unique_ptr<Kernel> make_cpuaccel_kernel(const LayerWeight& layer, const Int8Weights& values) {
  if (is_cpuaccel_product(layer.shape)) {
    return make_cpuaccel_product(layer, values);
  }
  if (is_dwconv(layer.shape)) {
    return std::make_unique<CpuaccelConv<Dwconv>>(layer, values);
  }
  return std::make_unique<CpuaccelConv<Qconv>>(layer, values);
}

const char* exact_unsupported_reason(const LayerWeight& layer, const Int8Weights& values) {
  if (layer.int8_bytes() == 0) {
    return "the weight is empty";
  }
  return cpuaccel_unsupported_reason(layer) == nullptr ? cpuaccel_unsupported_reason(layer, values)
                                                       : rows_unsupported_reason(layer, values);
}

std::unique_ptr<Kernel> make_exact_kernel(const LayerWeight& layer, const Int8Weights& values) {
  return cpuaccel_unsupported_reason(layer) == nullptr ? make_cpuaccel_kernel(layer, values)
                                                       : make_rows_kernel(layer, values);
}

}  // namespace cpuaccel::quant
