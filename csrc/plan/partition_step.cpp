#include "plan/partition_step.h"

#include <algorithm>
#include <memory>
#include <stdexcept>
#include <utility>
#include <vector>

#include "base/idle.h"
#include "dnnl/data_type.h"
#include "plan/engine.h"
#include "plan/global_pooling.h"
#include "plan/layer.h"
#include "plan/names.h"
#include "plan/partitions.h"

namespace cpuaccel::plan {
namespace {

using LogicalTensor = dnnl::graph::logical_tensor;
using Layout = LogicalTensor::layout_type;

class PartitionStep : public Step {
 public:
  PartitionStep(dnnl::graph::compiled_partition compiled, std::vector<LogicalTensor> in,
                std::vector<LogicalTensor> out)
      : compiled_(std::move(compiled)), in_(std::move(in)), out_(std::move(out)) {}

  void run(std::span<void* const> in, std::span<void* const> out) const override {
    auto tensors = idle_.take();
    if (!tensors) {
      tensors = std::make_unique<Tensors>(make(in_), make(out_));
    }
    for (size_t i = 0; i < in.size(); ++i) {
      tensors->first[i].set_data_handle(in[i]);
    }
    for (size_t i = 0; i < out.size(); ++i) {
      tensors->second[i].set_data_handle(out[i]);
    }
    compiled_.execute(stream(), tensors->first, tensors->second);
    idle_.give(std::move(tensors));
  }
  std::string kernel() const override { return "onednn graph"; }

 private:
  // Tensor objects of one run: inputs, outputs.
  using Tensors = std::pair<std::vector<dnnl::graph::tensor>, std::vector<dnnl::graph::tensor>>;

  static std::vector<dnnl::graph::tensor> make(const std::vector<LogicalTensor>& descs) {
    std::vector<dnnl::graph::tensor> result;
    for (const auto& desc : descs) {
      result.emplace_back(desc, engine(), nullptr);
    }
    return result;
  }

  dnnl::graph::compiled_partition compiled_;
  std::vector<LogicalTensor> in_, out_;
  mutable Idle<Tensors> idle_;
};

// Gives all operands that are not broadcast one layout. oneDNN reads two operands of different
// layouts element by element, at 0.1 GB/s. Examples are the residuals of images or words, and the
// output of attention.
void give_one_layout(Building& building, std::vector<Id>& operands) {
  const auto count = [&](Id id) { return count_of(building.desc(id).sizes); };
  const Sizes sizes = building.desc(*std::ranges::max_element(operands, {}, count)).sizes;
  const auto is_whole = [&](Id id) { return building.desc(id).sizes == sizes; };
  const auto first = std::ranges::find_if(operands, is_whole);
  if (std::ranges::all_of(operands, [&](Id id) {
        return !is_whole(id) || same_layout(building.desc(id), building.desc(*first));
      })) {
    return;
  }
  const auto in_format = std::ranges::find_if(operands, [&](Id id) {
    return is_whole(id) && memory_format_of(building.desc(id)).has_value();
  });
  const TensorDesc desc = in_format != operands.end() ? building.desc(*in_format)
                                                      : dense(sizes, MemoryFormat::contiguous);
  for (Id& id : operands) {
    id = is_whole(id) ? with_layout(building, id, desc) : id;
  }
}

// The logical tensor of an input port, with the layout of the value that is read for it.
LogicalTensor read(const Building& building, const LogicalTensor& port, Id id) {
  const auto desc = with_canonical_strides(building.desc(id));
  const auto property = building.is_constant(id) ? LogicalTensor::property_type::constant
                                                 : LogicalTensor::property_type::undef;
  const auto type = dnnl_layer::tensor_type(building.type(id));
  if (desc.sizes.empty()) {
    return {port.get_id(), type, desc.sizes, Layout::strided, property};
  }
  return {port.get_id(), type, desc.sizes, desc.strides, property};
}

// The values of a partition with global average pooling, with the sizes of this call, on which its
// attributes depend.
Region with_call_sizes(const Building& building, const Region& region, const Partition& partition) {
  Region now;
  for (const auto& operation : partition.operations) {
    for (const Id id : operation.inputs) {
      if (!now.values.contains(id)) {
        now.values[id] = {region.value(id).type, building.desc(id).sizes};
      }
    }
    for (const Id id : operation.outputs) {
      now.values[id] = region.value(id);
      now.values[id].sizes[0] = now.value(operation.inputs[0]).sizes[0];
    }
  }
  return now;
}

TensorDesc layout_of(const LogicalTensor& tensor) {
  if (tensor.get_layout_type() != Layout::strided) {
    throw std::runtime_error("oneDNN Graph chose an opaque layout for a result, expected strides");
  }
  return {tensor.get_dims(), tensor.get_strides()};
}

}  // namespace

DeclineReason make_partition(StepRequest& request) {
  auto& building = request.building;
  const auto& region = request.region;
  const auto& partition = request.partition();
  for (const auto& operation : partition.operations) {
    if (is_primitive_only(operation.name)) {
      throw std::runtime_error("oneDNN Graph has " + operation.name +
                               " only as a post-op of a convolution or a product");
    }
  }
  const bool has_global_pooling = std::ranges::any_of(partition.operations, is_global_pooling);
  const auto whole = has_global_pooling
                         ? as_one(with_call_sizes(building, region, partition), partition)
                         : as_one(region, partition);
  const auto ports = whole.get_input_ports();
  std::vector<LogicalTensor> in, out;
  std::vector<Id> inputs;
  for (const auto& port : ports) {
    inputs.push_back(static_cast<Id>(port.get_id()));
  }
  if (!inputs.empty() && is_binary(partition.operations[0])) {
    give_one_layout(building, inputs);
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    in.push_back(read(building, ports[i], inputs[i]));
  }
  for (const auto& port : whole.get_output_ports()) {
    const auto& value = region.value(static_cast<Id>(port.get_id()));
    out.emplace_back(port.get_id(), dnnl_layer::tensor_type(value.type),
                     static_cast<int32_t>(value.sizes.size()), Layout::any);
  }
  auto compiled = whole.compile(in, out, engine());
  std::vector<Id> outputs;
  std::vector<TensorDesc> descs;
  for (auto& tensor : out) {
    tensor = compiled.query_logical_tensor(tensor.get_id());
    outputs.push_back(static_cast<Id>(tensor.get_id()));
    descs.push_back(layout_of(tensor));
  }
  const auto pairs = compiled.get_inplace_ports();
  auto step = std::make_unique<PartitionStep>(std::move(compiled), std::move(in), std::move(out));
  for (const auto& [from, to] : pairs) {
    const Id id = static_cast<Id>(from);
    if (static_cast<Id>(to) == outputs[0] && building.may_overwrite(outputs[0], id) &&
        same_layout(building.desc(id), descs[0]) &&
        building.type(id) == building.type(outputs[0])) {
      step->overwritten = id;
      break;
    }
  }
  step->inputs = std::move(inputs);
  step->outputs = std::move(outputs);
  step->output_descs = std::move(descs);
  building.add(std::move(step));
  return kAdded;
}

}  // namespace cpuaccel::plan
