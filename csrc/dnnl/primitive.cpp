#include "dnnl/primitive.h"

#include <utility>
#include <vector>

#include "base/parallel.h"
#include "base/scratch.h"
#include "dnnl/describe.h"
#include "dnnl/one_thread.h"
#include "dnnl/slices.h"

namespace cpuaccel::dnnl_layer {

using dnnl::memory;
using Tag = memory::format_tag;
using Type = memory::data_type;

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

Primitive::Primitive(const AnyProblem& problem) {
  bool bias = false;
  if (const auto* layer = std::get_if<Problem>(&problem)) {
    if (layer->slices > 1) {
      make_slices(*layer);
      return;
    }
    scales_ = layer->OC;
    src_zero_point_ = layer->src_zero_point;
    dst_zero_point_ = layer->dst_zero_point;
    bias = layer->bias;
  } else {
    bias = std::get<MatmulProblem>(problem).bias;
  }
  const auto desc = std::visit([](const auto& p) { return describe(p); }, problem);
  src_desc_ = desc.query_md(dnnl::query::src_md);
  weights_desc_ = desc.query_md(dnnl::query::weights_md);
  if (bias) {
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

// All slices share the weights, so they must have the same layout.
void Primitive::make_slices(const Problem& problem) {
  const OneThread one;
  for (const auto& slice : slices_of(problem)) {
    const auto dst_first =
        static_cast<size_t>(slice.dst_first) * (problem.f32_dst ? sizeof(float) : 1);
    slices_.push_back({std::make_unique<const Primitive>(slice.problem),
                       static_cast<size_t>(slice.src_first), dst_first});
    bytes_ += slices_.back().primitive->bytes();
  }
  if (slices_.empty()) {
    throw dnnl::error(dnnl_unimplemented, "no such slices");
  }
  const auto& first = *slices_.front().primitive;
  for (const auto& slice : slices_) {
    if (slice.primitive->weights_desc() != first.weights_desc() ||
        slice.primitive->implementation() != first.implementation()) {
      throw dnnl::error(dnnl_unimplemented, "slices of several implementations");
    }
  }
  weights_desc_ = first.weights_desc();
  implementation_ = first.implementation() + " in " + std::to_string(slices_.size()) + " slices";
}

Primitive::~Primitive() = default;

std::unique_ptr<Primitive::Context> Primitive::acquire() const {
  if (auto kept = idle_.take()) {
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
  if (scales_ > 0) {
    add(context->scales, DNNL_ARG_ATTR_SCALES | DNNL_ARG_WEIGHTS,
        memory::desc({scales_}, Type::f32, Tag::x));
  }
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

void Primitive::execute(const Arguments& arguments) const {
  if (is_sliced()) {
    parallel_for(0, static_cast<int64_t>(slices_.size()), 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const auto& [primitive, src_first, dst_first] = slices_[static_cast<size_t>(i)];
        Arguments of_slice = arguments;
        of_slice.src = static_cast<const std::byte*>(arguments.src) + src_first;
        of_slice.dst = static_cast<std::byte*>(arguments.dst) + dst_first;
        primitive->execute(of_slice);
      }
    });
    return;
  }
  auto context = acquire();
  // oneDNN's handles are not const; inputs are only read.
  context->src.set_data_handle(const_cast<void*>(arguments.src));
  context->weights.set_data_handle(const_cast<void*>(arguments.weights));
  context->dst.set_data_handle(arguments.dst);
  if (!bias_desc_.is_zero()) {
    context->bias.set_data_handle(const_cast<void*>(arguments.bias));
  }
  if (scales_ > 0) {
    context->scales.set_data_handle(const_cast<float*>(arguments.scales));
  }
  context->src_zero_point_value = arguments.src_zero_point;
  context->dst_zero_point_value = arguments.dst_zero_point;
  if (const size_t bytes = scratchpad_desc_.get_size(); bytes > 0) {
    context->scratchpad.set_data_handle(scratch(ScratchSlot::primitive, bytes));
  }
  dnnl::error::wrap_c_api(dnnl_primitive_execute(primitive_.get(), stream().get(),
                                                 static_cast<int>(context->arguments.size()),
                                                 context->arguments.data()),
                          "could not execute a oneDNN primitive");
  idle_.give(std::move(context));
}

}  // namespace cpuaccel::dnnl_layer
