#include "plan/primitive_step.h"

#include <utility>

#include "base/scratch.h"
#include "dnnl/data_type.h"
#include "plan/engine.h"

namespace cpuaccel::plan {

struct PrimitiveStep::Context {
  std::vector<dnnl::memory> memories;  // inputs, outputs, bound, scratchpad
  std::vector<dnnl_exec_arg_t> arguments;
};

PrimitiveStep::PrimitiveStep(dnnl::primitive_desc_base desc, std::vector<Argument> in,
                             std::vector<Argument> out, std::vector<Argument> bound)
    : desc_(std::move(desc)),
      inputs_(std::move(in)),
      outputs_(std::move(out)),
      bound_(std::move(bound)),
      scratchpad_(desc_.query_md(dnnl::query::scratchpad_md)) {}

PrimitiveStep::~PrimitiveStep() = default;

void PrimitiveStep::prepare() {
  dnnl_primitive_t handle = nullptr;
  dnnl::error::wrap_c_api(dnnl_primitive_create(&handle, desc_.get()),
                          "could not create a oneDNN primitive");
  primitive_.reset(handle);
}

std::unique_ptr<PrimitiveStep::Context> PrimitiveStep::acquire() const {
  if (auto idle = idle_.take()) {
    return idle;
  }
  auto context = std::make_unique<Context>();
  auto add = [&](int argument, const dnnl::memory::desc& desc, void* data) {
    context->memories.emplace_back(desc, engine(), data);
    context->arguments.push_back({argument, context->memories.back().get()});
  };
  for (const auto* arguments : {&inputs_, &outputs_}) {
    for (const auto& each : *arguments) {
      add(each.argument, each.desc, DNNL_MEMORY_NONE);
    }
  }
  for (const auto& each : bound_) {
    add(each.argument, each.desc, const_cast<std::byte*>(each.memory.get()));
  }
  add(DNNL_ARG_SCRATCHPAD, scratchpad_, DNNL_MEMORY_NONE);
  return context;
}

std::string PrimitiveStep::kernel() const {
  return std::string("onednn ") + desc_.impl_info_str() +
         (eltwise != Activation::none ? "+eltwise" : "");
}

void PrimitiveStep::run(std::span<void* const> in, std::span<void* const> out) const {
  auto context = acquire();
  for (size_t i = 0; i < inputs_.size(); ++i) {
    context->memories[i].set_data_handle(static_cast<std::byte*>(in[i]) + inputs_[i].first);
  }
  for (size_t i = 0; i < out.size(); ++i) {
    context->memories[inputs_.size() + i].set_data_handle(static_cast<std::byte*>(out[i]) +
                                                          outputs_[i].first);
  }
  if (const size_t bytes = scratchpad_.get_size(); bytes > 0) {
    context->memories.back().set_data_handle(scratch(ScratchSlot::primitive, bytes));
  }
  dnnl::error::wrap_c_api(dnnl_primitive_execute(primitive_.get(), stream().get(),
                                                 static_cast<int>(context->arguments.size()),
                                                 context->arguments.data()),
                          "could not execute a oneDNN primitive");
  idle_.give(std::move(context));
  if (eltwise != Activation::none) {
    const auto& dst = outputs_.front();
    const auto type = dnnl_layer::data_type(dst.desc.get_data_type());
    apply_eltwise(eltwise, type, static_cast<std::byte*>(out.front()) + dst.first,
                  count_of(dst.desc.get_dims()));
  }
}

}  // namespace cpuaccel::plan
