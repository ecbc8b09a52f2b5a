#include "dnnl/primitive.h"

#include <utility>
#include <vector>

#include "base/scratch.h"

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

dnnl::primitive_attr attributes(const Problem& p) {
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  // One scale per output channel: of OC, of (groups, OC / groups), or of a matrix's columns.
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
    case PostOp::relu:
      post.append_eltwise(dnnl::algorithm::eltwise_relu, 0.0f, 0.0f);
      break;
    case PostOp::leaky_relu:
      post.append_eltwise(dnnl::algorithm::eltwise_relu, p.alpha, 0.0f);
      break;
    case PostOp::tanh:
      post.append_eltwise(dnnl::algorithm::eltwise_tanh, 0.0f, 0.0f);
      post.append_eltwise(dnnl::algorithm::eltwise_linear, p.beta, 0.0f);
      break;
    case PostOp::sum:
    case PostOp::sum_relu:
      post.append_sum(p.alpha, p.sum_zero_point, p.f32_dst ? Type::f32 : Type::u8);
      if (p.post == PostOp::sum_relu) {
        post.append_eltwise(dnnl::algorithm::eltwise_relu, 0.0f, 0.0f);
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

dnnl::primitive_desc_base describe(const Problem& p) {
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

const dnnl::engine& engine() {
  static const auto& instance =
      *std::make_unique<dnnl::engine>(dnnl::engine::kind::cpu, 0).release();
  return instance;
}

dnnl::stream& stream() {
  thread_local dnnl::stream instance(engine());
  return instance;
}

struct Primitive::Context {
  memory src, weights, bias, scales, src_zero_point, dst_zero_point, dst, scratchpad;
  int32_t src_zero_point_value = 0;
  int32_t dst_zero_point_value = 0;
  std::vector<dnnl_exec_arg_t> arguments;
};

Primitive::Primitive(const Problem& problem)
    : OC_(problem.OC),
      src_zero_point_(problem.src_zero_point),
      dst_zero_point_(problem.dst_zero_point) {
  const dnnl::primitive_desc_base desc = describe(problem);
  src_desc_ = desc.query_md(dnnl::query::src_md);
  weights_desc_ = desc.query_md(dnnl::query::weights_md);
  if (problem.bias) {
    bias_desc_ = desc.query_md(dnnl::query::weights_md, 1);
  }
  dst_desc_ = desc.query_md(dnnl::query::dst_md);
  scratchpad_desc_ = desc.query_md(dnnl::query::scratchpad_md);
  implementation_ = desc.impl_info_str();
  dnnl_primitive_t handle = nullptr;
  dnnl::error::wrap_c_api(dnnl_primitive_create(&handle, desc.get()),
                          "could not create a oneDNN primitive");
  primitive_.reset(handle);
  bytes_ = scratchpad_desc_.get_size() + sizeof(Primitive) + sizeof(Context);
}

Primitive::~Primitive() { const std::unique_ptr<Context> last(idle_.exchange(nullptr)); }

std::unique_ptr<Primitive::Context> Primitive::acquire() const {
  if (std::unique_ptr<Context> kept{idle_.exchange(nullptr, std::memory_order_acquire)}) {
    return kept;
  }
  auto context = std::make_unique<Context>();
  auto add = [&](memory& slot, int argument, const memory::desc& desc) {
    slot = memory(desc, engine(), DNNL_MEMORY_NONE);
    context->arguments.push_back({argument, slot.get()});
  };
  add(context->src, DNNL_ARG_SRC, src_desc_);
  add(context->weights, DNNL_ARG_WEIGHTS, weights_desc_);
  add(context->dst, DNNL_ARG_DST, dst_desc_);
  if (!bias_desc_.is_zero()) {
    add(context->bias, DNNL_ARG_BIAS, bias_desc_);
  }
  add(context->scales, DNNL_ARG_ATTR_SCALES | DNNL_ARG_WEIGHTS,
      memory::desc({OC_}, Type::f32, Tag::x));
  const memory::desc one_s32({1}, Type::s32, Tag::x);
  if (src_zero_point_) {
    add(context->src_zero_point, DNNL_ARG_ATTR_ZERO_POINTS | DNNL_ARG_SRC, one_s32);
    context->src_zero_point.set_data_handle(&context->src_zero_point_value);
  }
  if (dst_zero_point_) {
    add(context->dst_zero_point, DNNL_ARG_ATTR_ZERO_POINTS | DNNL_ARG_DST, one_s32);
    context->dst_zero_point.set_data_handle(&context->dst_zero_point_value);
  }
  add(context->scratchpad, DNNL_ARG_SCRATCHPAD, scratchpad_desc_);
  return context;
}

void Primitive::release(std::unique_ptr<Context> context) const {
  const std::unique_ptr<Context> other(
      idle_.exchange(context.release(), std::memory_order_acq_rel));
}

void Primitive::execute(const Arguments& arguments) const {
  auto context = acquire();
  // oneDNN's handles are not const; inputs are only read.
  context->src.set_data_handle(const_cast<uint8_t*>(arguments.src));
  context->weights.set_data_handle(const_cast<void*>(arguments.weights));
  context->dst.set_data_handle(arguments.dst);
  if (!bias_desc_.is_zero()) {
    context->bias.set_data_handle(const_cast<float*>(arguments.bias));
  }
  context->scales.set_data_handle(const_cast<float*>(arguments.scales));
  context->src_zero_point_value = arguments.src_zero_point;
  context->dst_zero_point_value = arguments.dst_zero_point;
  if (const size_t bytes = scratchpad_desc_.get_size(); bytes > 0) {
    context->scratchpad.set_data_handle(scratch(ScratchSlot::primitive, bytes));
  }
  dnnl::error::wrap_c_api(dnnl_primitive_execute(primitive_.get(), stream().get(),
                                                 static_cast<int>(context->arguments.size()),
                                                 context->arguments.data()),
                          "could not execute a oneDNN primitive");
  release(std::move(context));
}

}  // namespace cpuaccel::dnnl_layer
