#include "graph/partition_step.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <memory>
#include <stdexcept>
#include <utility>
#include <vector>

#include "base/idle.h"
#include "graph/engine.h"
#include "graph/names.h"
#include "graph/partitions.h"

namespace cpuaccel::graph {
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

bool is_binary(const Operation& operation) {
  using Kind = dnnl::graph::op::kind;
  constexpr Kind kKinds[] = {Kind::Add,    Kind::Subtract, Kind::Multiply,
                             Kind::Divide, Kind::Maximum,  Kind::Minimum};
  return operation.kind && std::ranges::find(kKinds, *operation.kind) != std::end(kKinds);
}

// Whether numbers lie without gaps, in one of the orders that steps write.
bool is_dense(const TensorDesc& desc) {
  return same_places(desc, dense(desc.sizes, Order::contiguous)) ||
         same_places(desc, dense(desc.sizes, Order::channels_last));
}

// Copies of operands, by what they are copies of: oneDNN reads two of different orders number by
// number, at 0.1 GB/s, as a residual of images or words and of what comes back from attention.
std::map<Id, Id> in_one_order(Building& building, const std::vector<Id>& operands) {
  const auto count = [&](Id id) { return count_of(building.desc(id).sizes); };
  const Sizes sizes = building.desc(*std::ranges::max_element(operands, {}, count)).sizes;
  std::vector<Id> whole;  // those that do not repeat
  std::ranges::copy_if(operands, std::back_inserter(whole),
                       [&](Id id) { return building.desc(id).sizes == sizes; });
  const auto lies_as = [&](const TensorDesc& desc) {
    return [&](Id id) { return same_places(building.desc(id), desc); };
  };
  if (std::ranges::all_of(whole, lies_as(building.desc(whole[0])))) {
    return {};
  }
  const auto found =
      std::ranges::find_if(whole, [&](Id id) { return is_dense(building.desc(id)); });
  const TensorDesc order =
      found != whole.end() ? building.desc(*found) : dense(sizes, Order::contiguous);
  std::map<Id, Id> copies;
  for (const Id id : whole) {
    if (!lies_as(order)(id) && !copies.contains(id)) {
      const Id copy = copies.emplace(id, building.new_value(building.type(id))).first->second;
      add_copy(building, id, copy, order);
    }
  }
  return copies;
}

// A port, as the value that is read for it lies.
LogicalTensor read(const Building& building, const LogicalTensor& port, Id id) {
  const auto desc = with_usual_ones(building.desc(id));
  const auto property = building.is_constant(id) ? LogicalTensor::property_type::constant
                                                 : LogicalTensor::property_type::undef;
  if (desc.sizes.empty()) {
    return {port.get_id(), building.type(id), desc.sizes, Layout::strided, property};
  }
  return {port.get_id(), building.type(id), desc.sizes, desc.strides, property};
}

TensorDesc lies(const LogicalTensor& tensor) {
  if (tensor.get_layout_type() != Layout::strided) {
    throw std::runtime_error("oneDNN Graph wants to write a layout of its own");
  }
  return {tensor.get_dims(), tensor.get_strides()};
}

}  // namespace

void add_partition(Building& building, const Program& program, const Partition& partition) {
  for (const auto& operation : partition.operations) {
    if (is_primitive_only(operation.name)) {
      throw std::runtime_error("oneDNN Graph has no " + operation.name + " but behind a layer");
    }
  }
  const auto whole = as_one(program, partition);
  std::vector<LogicalTensor> in, out;
  std::vector<Id> inputs;
  for (const auto& port : whole.get_input_ports()) {
    inputs.push_back(static_cast<Id>(port.get_id()));
  }
  if (!inputs.empty() && is_binary(partition.operations[0])) {
    const auto copies = in_one_order(building, inputs);
    for (Id& id : inputs) {
      const auto copy = copies.find(id);
      id = copy != copies.end() ? copy->second : id;
    }
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    in.push_back(read(building, whole.get_input_ports()[i], inputs[i]));
  }
  for (const auto& port : whole.get_output_ports()) {
    const auto& value = program.value(static_cast<Id>(port.get_id()));
    out.emplace_back(port.get_id(), value.type, static_cast<int32_t>(value.sizes.size()),
                     Layout::any);
  }
  auto compiled = whole.compile(in, out, engine());
  std::vector<Id> outputs;
  std::vector<TensorDesc> descs;
  for (auto& tensor : out) {
    tensor = compiled.query_logical_tensor(tensor.get_id());
    outputs.push_back(static_cast<Id>(tensor.get_id()));
    descs.push_back(lies(tensor));
  }
  const auto pairs = compiled.get_inplace_ports();
  auto step = std::make_unique<PartitionStep>(std::move(compiled), std::move(in), std::move(out));
  for (const auto& [from, to] : pairs) {
    const Id id = static_cast<Id>(from);
    if (static_cast<Id>(to) == outputs[0] && building.may_be_over(outputs[0], id) &&
        same_places(building.desc(id), descs[0]) &&
        building.type(id) == building.type(outputs[0])) {
      step->over = id;
      break;
    }
  }
  step->inputs = std::move(inputs);
  step->outputs = std::move(outputs);
  step->output_descs = std::move(descs);
  building.add(std::move(step));
}

}  // namespace cpuaccel::graph
