#include "dnnl/describe.h"
#include "dnnl/implementations.h"

namespace cpuaccel::dnnl_layer {
namespace {

using dnnl::memory;
using Tag = memory::format_tag;
using Type = memory::data_type;

memory::dims dims_of(const std::array<int64_t, 3>& values, int count) {
  return {values.begin(), values.begin() + count};
}

memory::dims activation_dims(int64_t N, int64_t C, const std::array<int64_t, 3>& space,
                             int spatial) {
  memory::dims dims{N, C};
  dims.insert(dims.end(), space.begin(), space.begin() + spatial);
  return dims;
}

Tag channels_last(int spatial) {
  return spatial == 0 ? Tag::nc : spatial == 1 ? Tag::nwc : spatial == 2 ? Tag::nhwc : Tag::ndhwc;
}

// Appends an elementwise function. If it does not commute with the requantization's scale, it gets
// real numbers, and the scale comes after it.
void append_eltwise(dnnl::post_ops& post, const Problem& p, dnnl::algorithm algorithm, float alpha,
                    float beta) {
  post.append_eltwise(algorithm, alpha, beta);
  if (!p.f32_dst && !commutes_with_scales(p.post)) {
    post.append_eltwise(dnnl::algorithm::eltwise_linear, p.beta, 0.0f);
  }
}

dnnl::primitive_attr attributes(const Problem& p) {
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  // One scale per output channel. Dimensions: OC, (groups, OC / groups), or a matrix's columns.
  const int scales_mask = p.kind == Kind::matmul ? 1 << 1 : p.groups > 1 ? 3 : 1;
  attr.set_scales_mask(DNNL_ARG_WEIGHTS, scales_mask);
  if (p.src_zero_point) {
    attr.set_zero_points_mask(DNNL_ARG_SRC, 0);
  }
  if (p.dst_zero_point) {
    attr.set_zero_points_mask(DNNL_ARG_DST, 0);
  }
  dnnl::post_ops post;
  switch (p.post) {
    case PostOp::none:
      break;
#define CPUACCEL_ACTIVATION(name, function, alpha, beta, ...)        \
  case PostOp::name:                                                 \
    append_eltwise(post, p, dnnl::algorithm::function, alpha, beta); \
    break;
#include "base/activations.inc"
#undef CPUACCEL_ACTIVATION
    case PostOp::leaky_relu:
      append_eltwise(post, p, dnnl::algorithm::eltwise_relu, p.alpha, 0.0f);
      break;
    case PostOp::tanh:
      append_eltwise(post, p, dnnl::algorithm::eltwise_tanh, 0.0f, 0.0f);
      break;
    case PostOp::sum:
    case PostOp::sum_relu:
      post.append_sum(p.alpha, p.sum_zero_point, p.f32_dst ? Type::f32 : Type::u8);
      if (p.post == PostOp::sum_relu) {
        append_eltwise(post, p, dnnl::algorithm::eltwise_relu, 0.0f, 0.0f);
      }
      break;
  }
  attr.set_post_ops(post);
  return attr;
}

memory::desc weights_any(const Problem& p) {
  memory::dims dims;
  if (p.kind == Kind::matmul) {
    dims = {p.IC, p.OC};
  } else {
    if (p.groups > 1) {
      dims.push_back(p.groups);
    }
    dims.push_back(p.OC / p.groups);
    dims.push_back(p.IC / p.groups);
    dims.insert(dims.end(), p.kernel.begin(), p.kernel.begin() + p.spatial);
  }
  return {dims, Type::s8, Tag::any};
}

// The descriptor with oneDNN's own choice of implementation.
dnnl::primitive_desc_base described(const Problem& p) {
  const Type dst_type = p.f32_dst ? Type::f32 : Type::u8;
  const Tag tag = channels_last(p.spatial);
  const memory::desc src(activation_dims(p.N, p.IC, p.src, p.spatial), Type::u8, tag);
  const memory::desc dst(activation_dims(p.N, p.OC, p.dst, p.spatial), dst_type, tag);
  const memory::desc weights = weights_any(p);
  memory::desc bias;
  if (p.bias) {
    bias = p.kind == Kind::matmul ? memory::desc({1, p.OC}, Type::f32, Tag::ab)
                                  : memory::desc({p.OC}, Type::f32, Tag::x);
  }
  const auto attr = attributes(p);
  if (p.kind == Kind::matmul) {
    return dnnl::matmul::primitive_desc(engine(), src, weights, bias, dst, attr);
  }
  auto dilation = dims_of(p.dilation, p.spatial);
  for (auto& value : dilation) {
    value -= 1;  // oneDNN counts the holes between taps
  }
  const auto stride = dims_of(p.stride, p.spatial);
  const auto padding_l = dims_of(p.padding_l, p.spatial);
  const auto padding_r = dims_of(p.padding_r, p.spatial);
  if (p.kind == Kind::convolution) {
    return dnnl::convolution_forward::primitive_desc(
        engine(), dnnl::prop_kind::forward_inference, dnnl::algorithm::convolution_direct, src,
        weights, bias, dst, stride, dilation, padding_l, padding_r, attr);
  }
  return dnnl::deconvolution_forward::primitive_desc(
      engine(), dnnl::prop_kind::forward_inference, dnnl::algorithm::deconvolution_direct, src,
      weights, bias, dst, stride, dilation, padding_l, padding_r, attr);
}

}  // namespace

dnnl::primitive_desc_base describe(const Problem& p) {
  auto desc = described(p);
  take_implementation(desc, p.implementation, volume(p.dst, p.spatial));
  return desc;
}

}  // namespace cpuaccel::dnnl_layer
