#include "plan/plan_builder.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "base/log.h"
#include "plan/facts.h"
#include "plan/norm_step.h"
#include "plan/slice_scatter.h"
#include "plan/step_makers.h"

namespace cpuaccel::plan {

Plan::Builder::Builder(const Region& region, std::span<const TensorDesc> inputs,
                       std::span<const TensorDesc> constants,
                       std::span<const void* const> constant_data, PackedWeights& packed,
                       bool fast_math, size_t written)
    : region_(region),
      packed_(packed),
      fast_math_(fast_math),
      written_(written),
      concat_chains_(region) {
  for (size_t i = 0; i < region.inputs.size(); ++i) {
    slots_.emplace(region.inputs[i], Slot{Place::input, i});
    descs_.emplace(region.inputs[i], inputs[i]);
  }
  const auto ids = region.all_constants();
  for (size_t i = 0; i < ids.size(); ++i) {
    slots_.emplace(ids[i], Slot{Place::constant, i});
    descs_.emplace(ids[i], constants[i]);
    constants_.emplace(ids[i], constant_data[i]);
  }
  const auto fresh = fresh_outputs();
  for (size_t i = 0; i < fresh.size(); ++i) {
    slots_.emplace(fresh[i].id, Slot{Place::output, i});
  }
  for (size_t i = 0; i < written; ++i) {
    const Id id = region.outputs[fresh.size() + i].id;
    if (i >= inputs.size() || !may_be_in_place(region, id, region.inputs[i]) ||
        !slots_.emplace(id, Slot{Place::input, i}).second) {
      throw std::runtime_error("graph: output " + std::to_string(id) +
                               " cannot be written in place: expected an input with a slice "
                               "replaced, which no other op reads");
    }
  }
  for (const auto& [id, value] : region.values) {
    next_ = std::max(next_, id + 1);
  }
  for (size_t i = 0; i < region.partitions.size(); ++i) {
    for (const auto& operation : region.partitions[i].operations) {
      for (const Id id : operation.inputs) {
        last_partition_.insert_or_assign(id, i);
      }
    }
  }
}

void Plan::Builder::add_next() {
  if (fused_.contains(current_) || is_sum_before_norm(*this, region_, current_)) {
    ++current_;
    return;
  }
  const size_t before = steps_.size();
  StepRequest request(*this, region_, current_, concat_chains_);
  make_steps(request);
  if (request.fused) {
    fused_.insert(*request.fused);
  }
  if (steps_.size() > before) {
    set_facts(before, request.computed ? *request.computed : request.partition());
  }
  ++current_;
}

void Plan::Builder::make_steps(StepRequest& request) {
  const size_t before = steps_.size();
  std::string declined;
  for (const auto& maker : step_makers()) {
    const auto reason = maker.make(request);
    if (reason == kAdded) {
      if (log_enabled()) {
        log_decision("plan step of " + request.first().name + ": " + std::string(maker.name) +
                     declined);
      }
      return;
    }
    steps_.resize(before);
    if (log_enabled()) {
      declined += "; not " + std::string(maker.name) + ": " + std::string(reason);
    }
  }
}

void Plan::Builder::set_facts(size_t first, const Partition& partition) {
  auto begin = partition.operations.begin();
  const auto end = partition.operations.end();
  const auto say = [&](Step& step, auto behind) {
    step.facts = facts_of(*this, Partition{{begin, behind}}, step);
    begin = behind;
  };
  for (; first + 1 < steps_.size(); ++first) {
    const Id result = steps_[first]->outputs[0];
    const auto made = std::find_if(
        begin, end, [&](const auto& operation) { return operation.outputs[0] == result; });
    if (made != end) {
      say(*steps_[first], made + 1);
    }
  }
  say(*steps_.back(), end);
}

bool Plan::Builder::has_traced_sizes(size_t partition) const {
  const auto as_traced = [&](Id id) {
    const auto found = descs_.find(id);
    return found == descs_.end() || found->second.sizes == region_.value(id).sizes;
  };
  const auto& operations = region_.partitions[partition].operations;
  return std::all_of(operations.begin(), operations.end(), [&](const Operation& operation) {
    return std::all_of(operation.outputs.begin(), operation.outputs.end(), as_traced);
  });
}

void Plan::Builder::pretend(size_t partition) {
  for (const auto& operation : region_.partitions[partition].operations) {
    for (const Id id : operation.outputs) {
      descs_.insert_or_assign(id, dense(region_.value(id).sizes, MemoryFormat::channels_last));
    }
  }
}

DataType Plan::Builder::type(Id id) const {
  const auto found = new_types_.find(id);
  return found != new_types_.end() ? found->second : region_.value(id).type;
}

const void* Plan::Builder::constant(Id id) const {
  used_constants_.insert(id);
  return constants_.at(id);
}

bool Plan::Builder::may_overwrite(Id to, Id from) const {
  const auto last = last_partition_.find(from);
  return !slots_.contains(to) && !slots_.contains(from) && !has_aliases_.contains(from) &&
         !aliases_.contains(from) && last != last_partition_.end() && last->second == current_;
}

bool Plan::Builder::is_in_place(Id to, Id from) const {
  const auto here = slots_.find(to), there = slots_.find(from);
  return here != slots_.end() && there != slots_.end() &&
         here->second.place == there->second.place && here->second.at == there->second.at;
}

bool Plan::Builder::alias(Id to, Id from, const TensorDesc& desc, int64_t offset) {
  if (slots_.contains(to)) {
    return false;
  }
  const size_t bytes = static_cast<size_t>(offset * data_type_size(type(from)));
  aliases_.emplace(to, Root{from, bytes});
  has_aliases_.insert(from);
  descs_.insert_or_assign(to, desc);
  return true;
}

Id Plan::Builder::new_value(DataType type) {
  new_types_.emplace(next_, type);
  return next_++;
}

void Plan::Builder::add(std::unique_ptr<Step> step) {
  for (size_t i = 0; i < step->outputs.size(); ++i) {
    descs_.insert_or_assign(step->outputs[i], step->output_descs[i]);
  }
  std::string kinds = std::move(step->facts.kinds);
  step->facts = facts_of_copy(*this, *step);
  if (!kinds.empty()) {
    step->facts.kinds = std::move(kinds);
  }
  steps_.push_back(std::move(step));
}

}  // namespace cpuaccel::plan
