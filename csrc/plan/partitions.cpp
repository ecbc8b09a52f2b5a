#include "plan/partitions.h"

#include <algorithm>
#include <numeric>
#include <span>
#include <stdexcept>
#include <unordered_set>

#include "plan/names.h"
#include "plan/whole_images.h"

namespace cpuaccel::plan {
namespace {

using LogicalTensor = dnnl::graph::logical_tensor;
using Property = LogicalTensor::property_type;

// `kind` is the operation's, or Wildcard in its place, which has no attributes.
dnnl::graph::op make_op(size_t number, dnnl::graph::op::kind kind, const Operation& operation,
                        const Program& program, const std::unordered_set<Id>& constants) {
  auto describe = [&](const std::vector<Id>& ids) {
    std::vector<LogicalTensor> result;
    for (const Id id : ids) {
      const auto& value = program.value(id);
      result.emplace_back(static_cast<size_t>(id), value.type, value.sizes,
                          LogicalTensor::layout_type::strided,
                          constants.contains(id) ? Property::constant : Property::undef);
    }
    return result;
  };
  dnnl::graph::op op(number, kind, describe(operation.inputs), describe(operation.outputs),
                     operation.name);
  if (kind == dnnl::graph::op::kind::Wildcard) {
    return op;
  }
  const auto attributes = is_of_whole_images(operation)
                              ? with_window(operation, program.value(operation.inputs[0]).sizes)
                              : operation.attributes;
  for (const auto& [name, value] : attributes) {
    std::visit([&, key = *attribute_of(name)](const auto& held) { op.set_attr(key, held); }, value);
  }
  return op;
}

bool is_convolution(const Operation& operation) {
  return operation.kind == dnnl::graph::op::kind::Convolution;
}

// `shown`, if it is given, is the only convolution that the library sees.
std::vector<dnnl::graph::partition> partitions_of(std::span<const Operation* const> operations,
                                                  const Program& program,
                                                  const Operation* shown = nullptr) {
  const auto constants = [&] {
    const auto ids = program.all_constants();
    return std::unordered_set<Id>(ids.begin(), ids.end());
  }();
  dnnl::graph::graph graph(dnnl::engine::kind::cpu);
  std::vector<dnnl::graph::op> ops;  // the graph keeps no copy while it is built
  ops.reserve(operations.size());
  for (const auto* operation : operations) {
    auto make = [&](dnnl::graph::op::kind kind) {
      return make_op(ops.size(), kind, *operation, program, constants);
    };
    const bool hidden = shown != nullptr && operation != shown && is_convolution(*operation);
    ops.push_back(make(hidden ? dnnl::graph::op::kind::Wildcard : operation->kind.value()));
    try {
      graph.add_op(ops.back());
    } catch (const dnnl::error&) {
      // The library does not support this op, for example not with this dtype.
      ops.back() = make(dnnl::graph::op::kind::Wildcard);
      graph.add_op(ops.back());
    }
  }
  graph.finalize();
  return graph.get_partitions();
}

std::vector<const Operation*> pointers(std::span<const Partition> partitions) {
  std::vector<const Operation*> result;
  for (const auto& partition : partitions) {
    for (const auto& operation : partition.operations) {
      result.push_back(&operation);
    }
  }
  return result;
}

// Indices into the operations that were given, sorted.
std::vector<size_t> places_of(const dnnl::graph::partition& partition) {
  auto places = partition.get_ops();
  std::sort(places.begin(), places.end());
  return places;
}

int64_t convolutions_of(std::span<const Operation* const> operations,
                        std::span<const size_t> places) {
  return std::count_if(places.begin(), places.end(),
                       [&](size_t place) { return is_convolution(*operations[place]); });
}

// With AMX the library takes whole blocks of ResNets as one partition, in which it chooses the code
// of each convolution without timing it. This cuts out each convolution with its post-ops, as if it
// were alone.
void cut_apart(std::span<const Operation* const> all, std::vector<size_t> left,
               const Program& program, std::vector<FoundPartition>& result) {
  // Cuts out the partition of `shown`; all partitions if it is null.
  const auto cut = [&](const Operation* shown) {
    std::vector<const Operation*> operations;
    for (const size_t place : left) {
      operations.push_back(all[place]);
    }
    std::vector<size_t> taken;
    for (const auto& partition : partitions_of(operations, program, shown)) {
      auto places = places_of(partition);
      for (size_t& place : places) {
        place = left[place];
      }
      const bool has_it = std::any_of(places.begin(), places.end(),
                                      [&](size_t place) { return all[place] == shown; });
      if (has_it || shown == nullptr) {
        taken.insert(taken.end(), places.begin(), places.end());
        result.push_back({partition.is_supported(), std::move(places)});
      }
    }
    std::erase_if(left, [&](size_t place) {
      return std::find(taken.begin(), taken.end(), place) != taken.end();
    });
  };
  for (const size_t place : std::vector<size_t>(left)) {
    if (is_convolution(*all[place])) {
      cut(all[place]);
    }
  }
  if (!left.empty()) {
    cut(nullptr);
  }
}

}  // namespace

std::vector<FoundPartition> find_partitions(const Program& program) {
  const auto operations = pointers(program.partitions);
  std::vector<FoundPartition> result;
  for (const auto& partition : partitions_of(operations, program)) {
    auto places = places_of(partition);
    if (partition.is_supported() && convolutions_of(operations, places) > 1) {
      cut_apart(operations, std::move(places), program, result);
    } else {
      result.push_back({partition.is_supported(), std::move(places)});
    }
  }
  return result;
}

dnnl::graph::partition as_one(const Program& program, const Partition& partition) {
  auto found = partitions_of(pointers({&partition, 1}), program);
  if (found.size() != 1 || !found[0].is_supported()) {
    throw std::runtime_error("oneDNN Graph does not run these operations as one partition");
  }
  return found[0];
}

}  // namespace cpuaccel::plan
