#include "plan/compiled.h"

#include <algorithm>
#include <optional>
#include <stdexcept>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "plan/arena.h"
#include "plan/batch_norm_step.h"
#include "plan/build.h"
#include "plan/facts.h"
#include "plan/few_rows_step.h"
#include "plan/gate_step.h"
#include "plan/grown_concat.h"
#include "plan/layer.h"
#include "plan/layer_norm_step.h"
#include "plan/layer_step.h"
#include "plan/names.h"
#include "plan/own.h"
#include "plan/packed_rows_step.h"
#include "plan/partition_step.h"
#include "plan/slice_scatter.h"
#include "plan/sum_step.h"

namespace cpuaccel::plan {

class CompiledProgram::Builder : public Building {
 public:
  Builder(const Program& program, std::span<const TensorDesc> inputs,
          std::span<const TensorDesc> constants, std::span<const void* const> constant_data,
          PackedWeights& packed, bool fast_math, size_t written)
      : program_(program),
        packed_(packed),
        fast_math_(fast_math),
        written_(written),
        grown_concats_(program) {
    for (size_t i = 0; i < program.inputs.size(); ++i) {
      places_.emplace(program.inputs[i], Slot{Place::input, i});
      descs_.emplace(program.inputs[i], inputs[i]);
    }
    const auto ids = program.all_constants();
    for (size_t i = 0; i < ids.size(); ++i) {
      places_.emplace(ids[i], Slot{Place::constant, i});
      descs_.emplace(ids[i], constants[i]);
      constants_.emplace(ids[i], constant_data[i]);
    }
    const auto fresh = fresh_outputs();
    for (size_t i = 0; i < fresh.size(); ++i) {
      places_.emplace(fresh[i].id, Slot{Place::output, i});
    }
    for (size_t i = 0; i < written; ++i) {
      const Id id = program.outputs[fresh.size() + i].id;
      if (i >= inputs.size() || !may_be_in_place(program, id, program.inputs[i]) ||
          !places_.emplace(id, Slot{Place::input, i}).second) {
        throw std::runtime_error("a result that cannot be written to an input");
      }
    }
    for (const auto& [id, value] : program.values) {
      next_ = std::max(next_, id + 1);
    }
    for (size_t i = 0; i < program.partitions.size(); ++i) {
      for (const auto& operation : program.partitions[i].operations) {
        for (const Id id : operation.inputs) {
          last_partition_.insert_or_assign(id, i);
        }
      }
    }
  }

  // Adds the steps of the next partition. Adds none if the partition is fused into another one's
  // step.
  void add_next() {
    if (within_others_.contains(current_) || is_sum_before_norm(current_)) {
      ++current_;
      return;
    }
    const auto& partition = program_.partitions[current_];
    const auto& first = partition.operations[0];
    const Operation* const sum = current_ > 0 && is_sum_before_norm(current_ - 1)
                                     ? &program_.partitions[current_ - 1].operations[0]
                                     : nullptr;
    const size_t before = steps_.size();
    NormWithin norm{sum};
    if (sum != nullptr || is_own_layer_norm(*this, partition)) {
      norm.norm = &first;
      norm.keeps_sum = sum != nullptr && is_read_beside(sum->outputs[0], current_);
      const auto quantize = quantize_behind(norm);
      add_layer_norm(*this, norm);
      if (quantize) {
        within_others_.insert(*quantize);
      }
    } else if (!first.kind) {
      find_own(first.name)(*this, program_, first);
    } else if (!grown_concats_.add(*this, current_) && !add_batch_norm(*this, partition) &&
               !add_as_sum(partition) && !add_as_layer(partition)) {
      steps_.resize(before);
      add_partition(*this, program_, partition);
    }
    if (steps_.size() > before) {
      say_facts(before, norm.norm != nullptr ? norm.partition() : partition);
    }
    ++current_;
  }

  // Fuses the operation that quantizes a norm's result, and returns its partition; nullopt if there
  // is none.
  std::optional<size_t> quantize_behind(NormWithin& within) const {
    const auto& all = program_.partitions;
    for (size_t i = current_ + 1; i < all.size(); ++i) {
      const auto& operation = all[i].operations[0];
      if (quantizes(*this, operation, *within.norm)) {
        within.quantize = &operation;
        within.keeps_norm = is_read_beside(within.norm->outputs[0], i);
        return i;
      }
    }
    return std::nullopt;
  }

  bool add_as_sum(const Partition& partition) {
    return is_sums(partition) && is_read_at_end_only(partition) && add_sum(*this, partition);
  }

  // If it returns false, it may have added steps that are of no use.
  bool add_as_layer(const Partition& partition) {
    const auto layer = as_layer(partition);
    if (!layer) {
      return false;
    }
    if (add_as_gate(partition, *layer)) {
      return true;
    }
    const auto rows = as_rows(*this, *layer);
    return (rows &&
            (add_few_rows(*this, *layer, *rows) || add_packed_rows(*this, *layer, *rows))) ||
           add_layer(*this, *layer);
  }

  // Adds two steps: a layer, and its last operation, which multiplies an image by the layer's
  // results.
  bool add_as_gate(const Partition& partition, const Layer& layer) {
    const auto& operations = partition.operations;
    const size_t before = steps_.size();
    if (operations.size() > 1 &&
        add_gate(*this, layer, operations[operations.size() - 2].outputs[0])) {
      return true;
    }
    steps_.resize(before);
    return false;
  }

  // Sets the facts of the steps from `first` on, which compute a partition. The last step writes
  // its result. A step before it writes the result of an operation on the way, or copies a source
  // to another layout.
  void say_facts(size_t first, const Partition& partition) {
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

  // Whether a partition is an addition and the next one a norm of the sum: they become one step.
  bool is_sum_before_norm(size_t partition) const {
    const auto& all = program_.partitions;
    return partition + 1 < all.size() &&
           plan::is_sum_before_norm(*this, all[partition], all[partition + 1]);
  }
  // Whether a value is an output of the region, or partitions other than `partition` read it.
  bool is_read_beside(Id id, size_t partition) const {
    const auto reads_it = [&](const Operation& operation) { return reads(operation, id); };
    for (size_t i = 0; i < program_.partitions.size(); ++i) {
      const auto& operations = program_.partitions[i].operations;
      if (i != partition && std::any_of(operations.begin(), operations.end(), reads_it)) {
        return true;
      }
    }
    return std::any_of(program_.outputs.begin(), program_.outputs.end(),
                       [&](const Output& output) { return output.id == id; });
  }

  // Whether nothing else reads the partition's results before its last one.
  bool is_read_at_end_only(const Partition& partition) const {
    const auto& operations = partition.operations;
    return std::none_of(operations.begin(), operations.end() - 1, [&](const auto& operation) {
      return is_read_beside(operation.outputs[0], current_);
    });
  }

  // Whether the results of a partition, for inputs as they were traced, have the sizes that torch's
  // have.
  bool has_traced_sizes(size_t partition) const {
    const auto as_traced = [&](Id id) {
      const auto found = descs_.find(id);
      return found == descs_.end() || found->second.sizes == program_.value(id).sizes;
    };
    const auto& operations = program_.partitions[partition].operations;
    return std::all_of(operations.begin(), operations.end(), [&](const Operation& operation) {
      return std::all_of(operation.outputs.begin(), operation.outputs.end(), as_traced);
    });
  }

  // Replaces add_next() for a partition that has no steps: its results get the layout of a layer's.
  void pretend_next() { pretend(current_++); }
  void pretend(size_t partition) {
    for (const auto& operation : program_.partitions[partition].operations) {
      for (const Id id : operation.outputs) {
        descs_.insert_or_assign(id, dense(program_.value(id).sizes, Order::channels_last));
      }
    }
  }

  // Moves the steps to `result`, with the places of everything that they read and write.
  void finish(CompiledProgram& result) {
    for (const auto& output : fresh_outputs()) {
      bring_in_order(output);
    }
    const auto offsets = place_values(result.arena_bytes_);
    auto slot = [&](Id id) {
      const auto root = root_of(id);
      const auto found = places_.find(root.id);
      auto where = found != places_.end() ? found->second : Slot{Place::arena, offsets.at(root.id)};
      where.offset = root.bytes;
      return where;
    };
    result.reads_constant_.resize(constants_.size());
    result.keeps_constant_.resize(constants_.size());
    for (const Id id : kept_) {
      result.keeps_constant_[places_.at(id).at] = true;
    }
    for (auto& step : steps_) {
      step->prepare();
      PlacedStep placed{std::move(step), {}, {}};
      for (const Id id : placed.step->inputs) {
        placed.inputs.push_back(slot(id));
        if (placed.inputs.back().place == Place::constant) {
          const size_t number = placed.inputs.back().at;
          result.reads_constant_[number] = true;
          result.keeps_constant_[number] =
              result.keeps_constant_[number] || !placed.step->keeps_nothing();
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

  DataType type(Id id) const override {
    const auto found = new_types_.find(id);
    return found != new_types_.end() ? found->second : program_.value(id).type;
  }
  const TensorDesc& desc(Id id) const override { return descs_.at(id); }
  bool is_constant(Id id) const override { return constants_.contains(id); }
  const void* constant(Id id) const override {
    kept_.insert(id);
    return constants_.at(id);
  }
  bool may_be_over(Id to, Id from) const override {
    const auto last = last_partition_.find(from);
    return !places_.contains(to) && !places_.contains(from) && !has_aliases_.contains(from) &&
           !aliases_.contains(from) && last != last_partition_.end() && last->second == current_;
  }
  bool is_in_place(Id to, Id from) const override {
    const auto here = places_.find(to), there = places_.find(from);
    return here != places_.end() && there != places_.end() &&
           here->second.place == there->second.place && here->second.at == there->second.at;
  }
  PackedWeights& packed() override { return packed_; }
  bool fast_math() const override { return fast_math_; }
  bool alias(Id to, Id from, const TensorDesc& desc, int64_t offset) override {
    if (places_.contains(to)) {
      return false;
    }
    const size_t bytes = static_cast<size_t>(offset) * bytes_of(type(from));
    aliases_.emplace(to, Root{from, bytes});
    has_aliases_.insert(from);
    descs_.insert_or_assign(to, desc);
    return true;
  }
  Id new_value(DataType type) override {
    new_types_.emplace(next_, type);
    return next_++;
  }
  void add(std::unique_ptr<Step> step) override {
    for (size_t i = 0; i < step->outputs.size(); ++i) {
      descs_.insert_or_assign(step->outputs[i], step->output_descs[i]);
    }
    step->facts = facts_of_copy(*this, *step);
    steps_.push_back(std::move(step));
  }

 private:
  // The outputs that have memory of their own.
  std::span<const Output> fresh_outputs() const {
    if (written_ > program_.outputs.size()) {
      throw std::runtime_error("more results in the place of inputs than there are");
    }
    return {program_.outputs.data(), program_.outputs.size() - written_};
  }

  // The value whose memory a view is part of, and the view's offset there.
  struct Root {
    Id id;
    size_t bytes;
  };
  Root root_of(Id id) const {
    Root root{id, 0};
    for (auto found = aliases_.find(id); found != aliases_.end(); found = aliases_.find(root.id)) {
      root = {found->second.id, root.bytes + found->second.bytes};
    }
    return root;
  }

  // If the output's layout is not the one asked for, its steps write a temporary value instead,
  // which is copied to the output right after the step that writes it.
  void bring_in_order(const Output& output) {
    const auto lies = descs_.at(output.id);
    const auto wanted = dense(lies.sizes, output.order);
    if (same_places(lies, wanted)) {
      descs_.at(output.id) = wanted;
      return;
    }
    const Id elsewhere = new_value(type(output.id));
    descs_.emplace(elsewhere, lies);
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

  // The offsets in the arena of the values between steps.
  std::unordered_map<Id, size_t> place_values(size_t& arena_bytes) const {
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
        if (places_.contains(id) || aliases_.contains(id)) {
          continue;
        }
        const auto last = last_read.find(id);
        const size_t bytes = span_of(steps_[step]->output_descs[i]) * bytes_of(type(id));
        Lifetime lifetime{bytes, step, last == last_read.end() ? step : last->second};
        if (i == 0 && steps_[step]->over) {
          lifetime.over = number.at(*steps_[step]->over);
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

  const Program& program_;
  PackedWeights& packed_;
  bool fast_math_;
  size_t written_;
  GrownConcats grown_concats_;
  std::unordered_map<Id, Slot> places_;
  std::unordered_map<Id, TensorDesc> descs_;
  std::unordered_map<Id, const void*> constants_;
  mutable std::unordered_set<Id> kept_;            // constants of which the plan holds something
  std::unordered_map<Id, size_t> last_partition_;  // the last that reads a value
  std::unordered_map<Id, Root> aliases_;
  std::unordered_set<Id> has_aliases_;
  std::unordered_map<Id, DataType> new_types_;
  std::vector<std::unique_ptr<Step>> steps_;
  size_t current_ = 0;
  std::unordered_set<size_t> within_others_;  // partitions fused into an earlier step
  Id next_ = 0;
};

CompiledProgram::CompiledProgram(const Program& program, std::span<const TensorDesc> inputs,
                                 std::span<const TensorDesc> constants,
                                 std::span<const void* const> constant_data, PackedWeights& packed,
                                 bool fast_math, size_t written) {
  Builder builder(program, inputs, constants, constant_data, packed, fast_math, written);
  for (size_t i = 0; i < program.partitions.size(); ++i) {
    builder.add_next();
  }
  builder.finish(*this);
  teams_ = StepTeams(steps_.size());
}

std::vector<std::string> why_not_compiled(const Program& program) {
  auto traced = [&](const std::vector<Id>& ids) {
    std::vector<TensorDesc> result;
    for (const Id id : ids) {
      result.push_back(dense(program.value(id).sizes, Order::contiguous));
    }
    return result;
  };
  const std::vector<const void*> nowhere(program.all_constants().size(), nullptr);
  PackedWeights packed;
  CompiledProgram::Builder builder(program, traced(program.inputs), traced(program.all_constants()),
                                   nowhere, packed, false, 0);
  std::vector<std::string> result;
  for (size_t i = 0; i < program.partitions.size(); ++i) {
    std::string why;
    try {
      builder.add_next();
      if (!builder.has_traced_sizes(i)) {
        why = "results of other sizes than torch's";
        builder.pretend(i);
      }
    } catch (const std::exception& error) {
      why = error.what();
      builder.pretend_next();
    }
    result.push_back(std::move(why));
  }
  return result;
}

}  // namespace cpuaccel::plan
