#include "graph/grown_concat.h"

#include <algorithm>
#include <memory>
#include <span>
#include <utility>

#include "graph/function_step.h"
#include "graph/names.h"
#include "graph/pixel_rows.h"
#include "graph/strided_copy.h"

namespace cpuaccel::graph {
namespace {

// Whether all that reads a value is batch norms, which take pixels that have others between them.
bool is_read_by_norms(const Program& program, Id id) {
  const auto reads = [&](const Operation& operation) {
    return std::count(operation.inputs.begin(), operation.inputs.end(), id) > 0;
  };
  return std::all_of(
      program.partitions.begin(), program.partitions.end(), [&](const Partition& partition) {
        const auto& operations = partition.operations;
        return operations[0].kind == dnnl::graph::op::kind::BatchNormInference
                   ? std::none_of(operations.begin() + 1, operations.end(), reads)
                   : std::none_of(operations.begin(), operations.end(), reads);
      });
}

// Of channels, in a partition of its own.
const Operation* concat_of(const Program& program, const Partition& partition) {
  const auto& operation = partition.operations[0];
  if (partition.operations.size() != 1 ||
      operation.kind != dnnl::graph::op::kind::Concat ||
      attribute(operation.attributes, "axis", int64_t{0}) != 1 ||
      program.value(operation.outputs[0]).sizes.size() < 3 ||
      !is_read_by_norms(program, operation.outputs[0])) {
    return nullptr;
  }
  return &operation;
}

bool begins_with(const std::vector<Id>& longer, const std::vector<Id>& beginning) {
  return longer.size() > beginning.size() &&
         std::equal(beginning.begin(), beginning.end(), longer.begin());
}

// Whether `sizes` are `traced` but for the number of channels, which is at most as large.
bool is_part_of(const Sizes& sizes, const Sizes& traced) {
  if (sizes.size() != traced.size() || sizes[1] > traced[1]) {
    return false;
  }
  for (size_t dim = 0; dim < sizes.size(); ++dim) {
    if (dim != 1 && sizes[dim] != traced[dim]) {
      return false;
    }
  }
  return true;
}

// Copies of the inputs side by side, `channels` being what lies before them.
FunctionStep::Function copies(const Building& building, std::span<const Id> inputs,
                              const TensorDesc& whole, int64_t channels) {
  std::vector<std::pair<StridedCopy, int64_t>> parts;  // and where they go, in bytes
  for (const Id id : inputs) {
    const auto& from = building.desc(id);
    const auto width = static_cast<int64_t>(bytes_of(building.type(id)));
    parts.emplace_back(StridedCopy(from, {from.sizes, whole.strides}, width), channels * width);
    channels += from.sizes[1];
  }
  return [parts = std::move(parts)](std::span<void* const> in, std::span<void* const> out) {
    for (size_t i = 0; i < parts.size(); ++i) {
      parts[i].first.run(in[i], static_cast<std::byte*>(out[0]) + parts[i].second);
    }
  };
}

}  // namespace

GrownConcats::GrownConcats(const Program& program) : program_(program) {
  std::vector<std::pair<size_t, const Operation*>> row;
  const auto end_row = [&] {
    for (size_t i = 0; row.size() > 1 && i < row.size(); ++i) {
      grown_.emplace(row[i].first, Grown{row[i].second, i == 0 ? nullptr : row[i - 1].second,
                                         program.value(row.back().second->outputs[0]).sizes});
    }
    row.clear();
  };
  for (size_t i = 0; i < program.partitions.size(); ++i) {
    const auto* const concat = concat_of(program, program.partitions[i]);
    if (concat == nullptr) {
      continue;
    }
    if (!row.empty() && !begins_with(concat->inputs, row.back().second->inputs)) {
      end_row();
    }
    row.emplace_back(i, concat);
  }
  end_row();
}

bool GrownConcats::add(Building& building, size_t partition) {
  const auto found = grown_.find(partition);
  if (found == grown_.end()) {
    return false;
  }
  const auto& [operation, before, traced] = found->second;
  const Id dst = operation->outputs[0];
  const auto type = building.type(dst);
  int64_t channels = 0;
  for (const Id id : operation->inputs) {
    const auto& sizes = building.desc(id).sizes;
    if (!is_part_of(sizes, traced) || building.type(id) != type) {
      return false;
    }
    channels += sizes[1];
  }
  auto sizes = traced;
  sizes[1] = channels;
  if (channels > traced[1]) {
    return false;
  }
  const auto whole = dense(traced, Order::channels_last);
  const auto known = before != nullptr ? memory_.find(before->outputs[0]) : memory_.end();
  const bool goes_on = known != memory_.end();
  const Id memory = goes_on ? known->second : building.new_value(type);
  if (!building.alias(dst, memory, {sizes, whole.strides}, 0)) {
    return false;  // the program's own result is memory of its own
  }
  memory_.emplace(dst, memory);
  std::span<const Id> fresh = operation->inputs;
  if (goes_on) {
    fresh = fresh.subspan(before->inputs.size());
  }
  int64_t copied = 0;
  for (const Id id : fresh) {
    copied += building.desc(id).sizes[1];
  }
  std::vector<Id> inputs(fresh.begin(), fresh.end());
  if (goes_on) {
    inputs.push_back(memory);
  }
  auto step = std::make_unique<FunctionStep>(
      std::move(inputs), goes_on ? dst : memory, goes_on ? building.desc(dst) : whole,
      copies(building, fresh, whole, channels - copied));
  sizes[1] = copied;
  step->moved_bytes = static_cast<double>(count_of(sizes)) * static_cast<double>(bytes_of(type));
  building.add(std::move(step));
  return true;
}

}  // namespace cpuaccel::graph
