#include "plan/concat_chain.h"

#include <algorithm>
#include <memory>
#include <span>
#include <utility>

#include "plan/batch_norm_step.h"
#include "plan/kernel_step.h"
#include "plan/strided_copy.h"

namespace cpuaccel::plan {
namespace {

// The operation of `partition` if it is a single concatenation of channels, else null.
const Operation* concat_of(const Region& region, const Partition& partition) {
  const auto& operation = partition.operations[0];
  if (partition.operations.size() != 1 || operation.kind != dnnl::graph::op::kind::Concat ||
      attribute(operation.attributes, "axis", int64_t{0}) != 1 ||
      region.value(operation.outputs[0]).sizes.size() < 3) {
    return nullptr;
  }
  return &operation;
}

bool begins_with(const std::vector<Id>& longer, const std::vector<Id>& beginning) {
  return longer.size() > beginning.size() &&
         std::equal(beginning.begin(), beginning.end(), longer.begin());
}

// Whether sizes differ at most in the number of channels.
bool are_side_by_side(Sizes a, const Sizes& b) {
  if (a.size() != b.size()) {
    return false;
  }
  a[1] = b[1];
  return a == b;
}

// Copies the inputs side by side into `whole`, from channel `channels` on.
KernelStep::Function copies(const Building& building, std::span<const Id> inputs,
                            const TensorDesc& whole, int64_t channels) {
  std::vector<std::pair<StridedCopy, int64_t>> parts;  // and their offsets in bytes
  for (const Id id : inputs) {
    const auto& from = building.desc(id);
    const auto width = data_type_size(building.type(id));
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

ConcatChains::ConcatChains(const Region& region) : region_(region) {
  // Several chains may grow in turns, as in branches of a model.
  std::vector<std::vector<size_t>> rows;
  const auto concat = [&](size_t partition) {
    return concat_of(region, region.partitions[partition]);
  };
  for (size_t i = 0; i < region.partitions.size(); ++i) {
    if (concat(i) == nullptr) {
      continue;
    }
    const auto row = std::find_if(rows.rbegin(), rows.rend(), [&](const auto& each) {
      return begins_with(concat(i)->inputs, concat(each.back())->inputs);
    });
    if (row == rows.rend()) {
      rows.push_back({i});
    } else {
      row->push_back(i);
    }
  }
  for (const auto& row : rows) {
    const auto channels = region.value(concat(row.back())->outputs[0]).sizes[1];
    for (size_t i = 0; row.size() > 1 && i < row.size(); ++i) {
      links_.emplace(row[i], Link{concat(row[i]), i == 0 ? nullptr : concat(row[i - 1]), channels});
    }
  }
}

// cpuaccel's batch norms allow other channels between the pixels of their input.
bool ConcatChains::is_read_by_norms(const Building& building, Id id) const {
  const auto is_read = [&](const Operation& operation) { return reads(operation, id); };
  return std::all_of(region_.partitions.begin(), region_.partitions.end(),
                     [&](const Partition& partition) {
                       const auto& operations = partition.operations;
                       return std::none_of(operations.begin(), operations.end(), is_read) ||
                              is_batch_norm_step(building, partition);
                     });
}

DeclineReason ConcatChains::add(Building& building, size_t partition) {
  const auto found = links_.find(partition);
  if (found == links_.end()) {
    return "not in a chain of concatenations of channels";
  }
  const auto& [operation, before, most] = found->second;
  const Id dst = operation->outputs[0];
  const auto type = building.type(dst);
  auto sizes = building.desc(operation->inputs[0]).sizes;
  int64_t channels = 0;
  for (const Id id : operation->inputs) {
    const auto& each = building.desc(id).sizes;
    if (!are_side_by_side(each, sizes) || count_of(each) == 0 || building.type(id) != type) {
      return "inputs of different sizes or dtypes, or empty ones";
    }
    channels += each[1];
  }
  if (channels > most) {
    return "more channels than the chain had when it was traced";
  }
  if (!is_read_by_norms(building, dst)) {
    return "read by other operations than cpuaccel's batch norms";
  }
  sizes[1] = most;
  const auto whole = dense(sizes, MemoryFormat::channels_last);
  const auto known = before != nullptr ? memory_.find(before->outputs[0]) : memory_.end();
  const bool goes_on = known != memory_.end();
  const Id memory = goes_on ? known->second : building.new_value(type);
  sizes[1] = channels;
  if (!building.alias(dst, memory, {sizes, whole.strides}, 0)) {
    return "an output of the region, which has memory of its own";
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
  auto step = std::make_unique<KernelStep>(std::move(inputs), goes_on ? dst : memory,
                                           goes_on ? building.desc(dst) : whole,
                                           copies(building, fresh, whole, channels - copied));
  sizes[1] = copied;
  step->moved_bytes =
      static_cast<double>(count_of(sizes)) * static_cast<double>(data_type_size(type));
  building.add(std::move(step));
  return kAdded;
}

DeclineReason make_concat_chain(StepRequest& request) {
  return request.concats.add(request.building, request.number);
}

}  // namespace cpuaccel::plan
