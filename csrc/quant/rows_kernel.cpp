#include "quant/rows_kernel.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <limits>
#include <optional>
#include <vector>

#include "base/parallel.h"
#include "base/scratch.h"
#include "kernels/qconv/qconv.h"
#include "quant/cpuaccel_kernel_base.h"

namespace cpuaccel::quant {
namespace {

using Dims = std::array<int64_t, 3>;

kernels::QconvShape rows_shape(const LayerShape& s) { return {s.IC * s.taps(), s.OC, s.groups}; }

// Weights minus their zero points as rows; nullopt if one of them leaves int8.
std::optional<std::vector<int8_t>> as_rows(const LayerWeight& layer, const Int8Weights& values) {
  std::vector<int8_t> rows(static_cast<size_t>(values.count));
  bool fits = true;
  for_each_weight(layer.shape, [&](int64_t plain, int64_t at, size_t oc) {
    const int32_t value = values.data[plain] - layer.zero_points[oc];
    fits = fits && value >= std::numeric_limits<int8_t>::min() &&
           value <= std::numeric_limits<int8_t>::max();
    rows[static_cast<size_t>(at)] = static_cast<int8_t>(value);
  });
  return fits ? std::optional(std::move(rows)) : std::nullopt;
}

// The src position that a dst position reads with a tap, or -1 if there is no src pixel.
int64_t source_of(const LayerShape& s, size_t dim, int64_t dst, int64_t tap, int64_t src_size) {
  const int64_t reach = tap * s.dilation[dim];
  int64_t src = dst * s.stride[dim] - s.padding[dim] + reach;
  if (s.kind == LayerKind::conv_transpose) {
    const int64_t strided = dst + s.padding[dim] - reach;
    src = strided % s.stride[dim] == 0 ? strided / s.stride[dim] : -1;
  }
  return src < 0 || src >= src_size ? -1 : src;
}

class RowsKernel final : public PackedCpuaccelKernel<kernels::QconvWeights> {
 public:
  RowsKernel(const LayerWeight& layer, const std::vector<int8_t>& rows)
      : PackedCpuaccelKernel(layer, kernels::qconv_pack(rows_shape(layer.shape), rows.data(),
                                                        kernels::qconv_form())) {}

  bool fuses_byte_post_ops(const QuantCall& /*call*/) override { return false; }

  Int8Weights unpack() override {
    const int64_t count = layer_.int8_bytes();
    std::vector<int8_t> rows(static_cast<size_t>(count));
    kernels::qconv_unpack(packed_, rows.data());
    return new_weights(count, [&](int8_t* to) {
      for_each_weight(layer_.shape, [&](int64_t plain, int64_t at, size_t oc) {
        to[plain] = static_cast<int8_t>(rows[static_cast<size_t>(at)] + layer_.zero_points[oc]);
      });
    });
  }

  std::string implementation() override {
    return std::string("qconv:") + kernels::first_usable(kernels::qconv_kernels()).name +
           " of copied rows";
  }

 protected:
  const char* run_family(const QuantCall& call, const Result& result) override {
    constexpr int64_t kBytesAtOnce = 1 << 20, kLeastRows = 64;
    const int64_t pixels = call.N * volume(call.dst_dims), width = packed_.shape.IC;
    const int64_t most = std::max(kLeastRows, kBytesAtOnce / width);
    auto* rows = static_cast<uint8_t*>(
        scratch(ScratchSlot::quantized_src, static_cast<size_t>(std::min(most, pixels) * width)));
    kernels::QconvCall product;
    product.weights = &packed_;
    product.src = rows;
    product.src_zero_point = call.src_zero_point;
    result.fill(call, product.dst);
    for (int64_t first = 0; first < pixels; first += most) {
      product.N = std::min(most, pixels - first);
      fill(call, first, product.N, rows);
      product.dst.data =
          static_cast<std::byte*>(call.dst) + first * packed_.shape.OC * product.dst.element_size();
      kernels::qconv(product);
    }
    return nullptr;
  }

 private:
  // Fills rows for `count` pixels. The layout of a row is group, tap, src channel.
  void fill(const QuantCall& call, int64_t first, int64_t count, uint8_t* rows) const {
    constexpr int64_t kGrainBytes = 64 * 1024;
    const int64_t width = packed_.shape.IC;
    parallel_for(0, count, std::max<int64_t>(1, kGrainBytes / width),
                 [&](int64_t begin, int64_t end) {
                   for (int64_t i = begin; i < end; ++i) {
                     fill_row(call, first + i, rows + i * width);
                   }
                 });
  }

  void fill_row(const QuantCall& call, int64_t pixel, uint8_t* row) const {
    const auto& s = layer_.shape;
    const auto& [dst0, dst1, dst2] = call.dst_dims;
    const auto& [src0, src1, src2] = call.src_dims;
    const int64_t image = pixel / (dst0 * dst1 * dst2);
    const Dims place{pixel / (dst1 * dst2) % dst0, pixel / dst2 % dst1, pixel % dst2};
    int64_t tap = 0;
    for (int64_t k0 = 0; k0 < s.kernel[0]; ++k0) {
      const int64_t at0 = source_of(s, 0, place[0], k0, src0);
      for (int64_t k1 = 0; k1 < s.kernel[1]; ++k1) {
        const int64_t at1 = source_of(s, 1, place[1], k1, src1);
        for (int64_t k2 = 0; k2 < s.kernel[2]; ++k2, ++tap) {
          const int64_t at2 = source_of(s, 2, place[2], k2, src2);
          const bool inside = at0 >= 0 && at1 >= 0 && at2 >= 0;
          copy_tap(inside ? call.src + (((image * src0 + at0) * src1 + at1) * src2 + at2) * s.IC
                          : nullptr,
                   call.src_zero_point, tap, row);
        }
      }
    }
  }

  void copy_tap(const uint8_t* src, int32_t zero_point, int64_t tap, uint8_t* row) const {
    const auto& s = layer_.shape;
    const int64_t inputs = s.IC / s.groups, taps = s.taps();
    for (int64_t group = 0; group < s.groups; ++group) {
      uint8_t* to = row + (group * taps + tap) * inputs;
      if (src != nullptr) {
        std::memcpy(to, src + group * inputs, static_cast<size_t>(inputs));
      } else {
        std::memset(to, zero_point, static_cast<size_t>(inputs));
      }
    }
  }
};

}  // namespace

const char* rows_unsupported_reason(const LayerWeight& layer, const Int8Weights& values) {
  if (layer.s8_sources) {
    return "cpuaccel's exact kernel takes only quint8 inputs";
  }
  const auto rows = as_rows(layer, values);
  if (!rows) {
    return "weights minus their zero points do not fit int8";
  }
  return kernels::qconv_fits(rows_shape(layer.shape), rows->data())
             ? nullptr
             : "sums with these weights could overflow int32";
}

std::unique_ptr<Kernel> make_rows_kernel(const LayerWeight& layer, const Int8Weights& values) {
  return std::make_unique<RowsKernel>(layer, *as_rows(layer, values));
}

}  // namespace cpuaccel::quant
