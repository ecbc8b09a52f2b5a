#include "quant/weight.h"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <stdexcept>
#include <utility>

namespace cpuaccel::quant {
namespace {

std::string joined(const std::array<int64_t, 3>& values, int count) {
  std::string text;
  for (int i = 0; i < count; ++i) {
    text += i == 0 ? "" : "x";
    text += std::to_string(values[static_cast<size_t>(i)]);
  }
  return text;
}

// "[64, 3, 3, 3]"
std::string shown(const std::vector<int64_t>& sizes) {
  std::string text = "[";
  for (const int64_t size : sizes) {
    text += (text.size() > 1 ? ", " : "") + std::to_string(size);
  }
  return text + "]";
}

void check(bool holds, const char* op, const std::string& message) {
  if (!holds) {
    throw std::runtime_error(op + (": " + message));
  }
}

// Libraries have int offsets.
void check_count(const std::vector<int64_t>& sizes, const char* op) {
  int64_t count = 1;
  for (const int64_t size : sizes) {
    count *= size;
  }
  check(count <= std::numeric_limits<int32_t>::max(), op,
        "expected weight to have fewer than 2^31 elements, but got shape " + shown(sizes));
}

void check_list(const std::vector<int64_t>& values, const char* op, const std::string& name,
                int spatial, int64_t least) {
  check(static_cast<int>(values.size()) == spatial, op,
        name + " should contain " + std::to_string(spatial) + " elements for " +
            std::to_string(spatial) + "D convolution, but got " + std::to_string(values.size()));
  for (const int64_t value : values) {
    check(value >= least && value <= std::numeric_limits<int32_t>::max(), op,
          name + (least > 0 ? " should be positive" : " should not be negative") +
              " and below 2^31, but got " + std::to_string(value));
  }
}

void copy_dims(const std::vector<int64_t>& from, std::array<int64_t, 3>& to) {
  std::ranges::copy(from, to.begin());
}

}  // namespace

std::array<int64_t, 3> LayerShape::dst_dims(const std::array<int64_t, 3>& src) const {
  std::array<int64_t, 3> dst{1, 1, 1};
  for (size_t i = 0; i < static_cast<size_t>(spatial); ++i) {
    const int64_t extent = dilation[i] * (kernel[i] - 1) + 1;
    dst[i] = kind == LayerKind::conv_transpose
                 ? (src[i] - 1) * stride[i] - 2 * padding[i] + extent + output_padding[i]
             : src[i] + 2 * padding[i] < extent
                 ? 0
                 : (src[i] + 2 * padding[i] - extent) / stride[i] + 1;
  }
  return dst;
}

std::vector<int64_t> LayerShape::weight_sizes() const {
  const bool transposed = kind == LayerKind::conv_transpose;
  std::vector<int64_t> sizes{transposed ? IC : OC, (transposed ? OC : IC) / groups};
  sizes.insert(sizes.end(), kernel.begin(), kernel.begin() + spatial);
  return sizes;
}

std::string LayerShape::to_string() const {
  if (kind == LayerKind::linear) {
    return "linear " + std::to_string(IC) + "->" + std::to_string(OC);
  }
  return (kind == LayerKind::conv ? "conv" : "conv_transpose") + std::to_string(spatial) + "d " +
         std::to_string(IC) + "->" + std::to_string(OC) + " k" + joined(kernel, spatial) + " s" +
         joined(stride, spatial) + " p" + joined(padding, spatial) + " d" +
         joined(dilation, spatial) + " g" + std::to_string(groups);
}

LayerBias new_bias(std::vector<float> values) {
  return {std::make_shared<const std::vector<float>>(std::move(values)),
          [](const void* owner) { return static_cast<const std::vector<float>*>(owner)->data(); }};
}

bool LayerWeight::symmetric() const {
  return std::ranges::all_of(zero_points, [](int32_t zero_point) { return zero_point == 0; });
}

int64_t LayerWeight::int8_bytes() const {
  return shape.IC / shape.groups * shape.OC * shape.taps();
}

bool sums_fit_int32(const LayerWeight& layer, const Int8Weights& values) {
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  const auto& shape = layer.shape;
  const int64_t count = shape.IC / shape.groups * shape.taps();
  if (count <= kMost / (255 * 255)) {
    return true;
  }
  if (shape.kind == LayerKind::conv_transpose) {
    return false;  // its channels are not rows, so only the bound above applies
  }
  for (int64_t oc = 0; oc < shape.OC; ++oc) {
    int64_t sum = 0;
    for (int64_t i = oc * count; i < (oc + 1) * count; ++i) {
      sum += std::abs(int64_t{values.data[i]} - layer.zero_points[static_cast<size_t>(oc)]);
    }
    if (255 * sum > kMost) {
      return false;
    }
  }
  return true;
}

LayerShape linear_shape(const std::vector<int64_t>& weight_sizes) {
  check_count(weight_sizes, "quantized::linear_prepack");
  LayerShape shape;
  shape.OC = weight_sizes.at(0);
  shape.IC = weight_sizes.at(1);
  return shape;
}

LayerShape conv_shape(const std::vector<int64_t>& weight_sizes, const ConvParameters& p,
                      int spatial) {
  const char* op = p.transposed ? "quantized::conv_transpose_prepack" : "quantized::conv_prepack";
  check_count(weight_sizes, op);
  check_list(p.stride, op, "stride", spatial, 1);
  check_list(p.padding, op, "padding", spatial, 0);
  check_list(p.output_padding, op, "output_padding", spatial, 0);
  check_list(p.dilation, op, "dilation", spatial, 1);
  check(p.groups >= 1, op, "expected groups to be at least 1, but got " + std::to_string(p.groups));
  check(weight_sizes.at(0) % p.groups == 0, op,
        "groups = " + std::to_string(p.groups) + " does not divide number of " +
            (p.transposed ? "input" : "output") + " channels = " + std::to_string(weight_sizes[0]));
  check(std::ranges::all_of(weight_sizes, [](int64_t size) { return size > 0; }), op,
        "expected every dimension of weight to be positive, but got shape " + shown(weight_sizes));
  LayerShape shape;
  shape.kind = p.transposed ? LayerKind::conv_transpose : LayerKind::conv;
  shape.spatial = spatial;
  shape.groups = p.groups;
  shape.OC = p.transposed ? weight_sizes.at(1) * p.groups : weight_sizes[0];
  shape.IC = p.transposed ? weight_sizes[0] : weight_sizes.at(1) * p.groups;
  for (size_t i = 0; i < static_cast<size_t>(spatial); ++i) {
    shape.kernel[i] = weight_sizes.at(i + 2);
  }
  copy_dims(p.stride, shape.stride);
  copy_dims(p.padding, shape.padding);
  copy_dims(p.output_padding, shape.output_padding);
  copy_dims(p.dilation, shape.dilation);
  return shape;
}

}  // namespace cpuaccel::quant
