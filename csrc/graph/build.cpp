#include "graph/build.h"

#include "graph/engine.h"
#include "graph/primitive_step.h"

namespace cpuaccel::graph {

dnnl::memory::desc memory_desc(DataType type, const TensorDesc& desc) {
  // Types have the same numbers in both of oneDNN's interfaces.
  const auto as = static_cast<dnnl::memory::data_type>(static_cast<int>(type));
  if (desc.sizes.empty()) {
    return {{1}, as, {1}};
  }
  const auto usual = with_usual_ones(desc);
  return {usual.sizes, as, usual.strides};
}

void add_copy(Building& building, Id from, Id to, const TensorDesc& desc) {
  const auto src = memory_desc(building.type(from), building.desc(from));
  const auto dst = memory_desc(building.type(to), desc);
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  const dnnl::reorder::primitive_desc reorder(engine(), src, engine(), dst, attr);
  using Argument = PrimitiveStep::Argument;
  auto step = std::make_unique<PrimitiveStep>(reorder, std::vector<Argument>{{DNNL_ARG_FROM, src}},
                                              std::vector<Argument>{{DNNL_ARG_TO, dst}},
                                              std::vector<Argument>{});
  step->inputs = {from};
  step->outputs = {to};
  step->output_descs = {desc};
  building.add(std::move(step));
}

}  // namespace cpuaccel::graph
