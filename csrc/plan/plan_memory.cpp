#include <algorithm>
#include <stdexcept>
#include <utility>

#include "plan/arena.h"
#include "plan/plan_builder.h"

namespace cpuaccel::plan {

std::span<const Output> Plan::Builder::fresh_outputs() const {
  if (written_ > region_.outputs.size()) {
    throw std::runtime_error("graph: written: expected at most " +
                             std::to_string(region_.outputs.size()) +
                             " inputs, one for each output, got " + std::to_string(written_));
  }
  return {region_.outputs.data(), region_.outputs.size() - written_};
}

Plan::Builder::Root Plan::Builder::root_of(Id id) const {
  Root root{id, 0};
  for (auto found = aliases_.find(id); found != aliases_.end(); found = aliases_.find(root.id)) {
    root = {found->second.id, root.bytes + found->second.bytes};
  }
  return root;
}

void Plan::Builder::give_format(const Output& output) {
  const auto layout = descs_.at(output.id);
  const auto wanted = dense(layout.sizes, output.format);
  if (same_layout(layout, wanted)) {
    descs_.at(output.id) = wanted;
    return;
  }
  const Id elsewhere = new_value(type(output.id));
  descs_.emplace(elsewhere, layout);
  for (auto& [id, root] : aliases_) {
    root.id = root.id == output.id ? elsewhere : root.id;
  }
  for (auto& step : steps_) {
    std::replace(step->inputs.begin(), step->inputs.end(), output.id, elsewhere);
    std::replace(step->outputs.begin(), step->outputs.end(), output.id, elsewhere);
  }
  add_copy(*this, elsewhere, output.id, wanted);
  const auto writes = [&](const auto& step) {
    return std::count(step->outputs.begin(), step->outputs.end(), elsewhere) > 0;
  };
  const auto writer = std::find_if(steps_.begin(), steps_.end(), writes);
  std::rotate(writer + 1, steps_.end() - 1, steps_.end());
}

std::unordered_map<Id, size_t> Plan::Builder::place_values(size_t& arena_bytes) const {
  std::unordered_map<Id, size_t> last_read;
  for (size_t step = 0; step < steps_.size(); ++step) {
    for (const Id id : steps_[step]->inputs) {
      last_read.insert_or_assign(root_of(id).id, step);
    }
    for (const Id id : steps_[step]->outputs) {
      if (aliases_.contains(id)) {
        last_read.insert_or_assign(root_of(id).id, step);  // the last write counts, too
      }
    }
  }
  std::vector<Id> ids;
  std::vector<Lifetime> lifetimes;
  std::unordered_map<Id, int64_t> number;
  for (size_t step = 0; step < steps_.size(); ++step) {
    const auto& outputs = steps_[step]->outputs;
    for (size_t i = 0; i < outputs.size(); ++i) {
      const Id id = outputs[i];
      if (slots_.contains(id) || aliases_.contains(id)) {
        continue;
      }
      const auto last = last_read.find(id);
      const size_t bytes =
          span_of(steps_[step]->output_descs[i]) * static_cast<size_t>(data_type_size(type(id)));
      Lifetime lifetime{bytes, step, last == last_read.end() ? step : last->second};
      if (i == 0 && steps_[step]->overwritten) {
        lifetime.over = number.at(*steps_[step]->overwritten);
      }
      number.emplace(id, static_cast<int64_t>(ids.size()));
      lifetimes.push_back(lifetime);
      ids.push_back(id);
    }
  }
  const auto arena = plan_arena(lifetimes);
  arena_bytes = arena.bytes;
  std::unordered_map<Id, size_t> offsets;
  for (size_t i = 0; i < ids.size(); ++i) {
    offsets.emplace(ids[i], arena.offsets[i]);
  }
  return offsets;
}

void Plan::Builder::finish(Plan& result) {
  for (const auto& output : fresh_outputs()) {
    give_format(output);
  }
  const auto offsets = place_values(result.arena_bytes_);
  auto slot = [&](Id id) {
    const auto root = root_of(id);
    const auto found = slots_.find(root.id);
    auto where = found != slots_.end() ? found->second : Slot{Place::arena, offsets.at(root.id)};
    where.offset = root.bytes;
    return where;
  };
  result.reads_constant_.resize(constants_.size());
  result.depends_on_constant_.resize(constants_.size());
  for (const Id id : used_constants_) {
    result.depends_on_constant_[slots_.at(id).at] = true;
  }
  for (auto& step : steps_) {
    step->prepare();
    PlacedStep placed{std::move(step), {}, {}};
    for (const Id id : placed.step->inputs) {
      placed.inputs.push_back(slot(id));
      if (placed.inputs.back().place == Place::constant) {
        const size_t number = placed.inputs.back().at;
        result.reads_constant_[number] = true;
        result.depends_on_constant_[number] =
            result.depends_on_constant_[number] || !placed.step->reads_in_place();
      }
    }
    for (const Id id : placed.step->outputs) {
      placed.outputs.push_back(slot(id));
    }
    result.steps_.push_back(std::move(placed));
  }
  for (const auto& output : fresh_outputs()) {
    result.outputs_.push_back(descs_.at(output.id));
  }
}

}  // namespace cpuaccel::plan
