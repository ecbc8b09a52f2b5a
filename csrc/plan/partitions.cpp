#include "plan/partitions.h"

#include <algorithm>
#include <numeric>
#include <span>
#include <stdexcept>
#include <unordered_set>

#include "dnnl/data_type.h"
#include "plan/global_pooling.h"
#include "plan/names.h"
#include "plan/widened.h"

namespace cpuaccel::plan {
namespace {

using LogicalTensor = dnnl::graph::logical_tensor;
using Property = LogicalTensor::property_type;

// Where operations are only grouped, f16 counts as f32 if its arithmetic is (widened.h). The
// library has no operations of f16 on such CPUs, but those of bf16.
enum class Purpose { grouping, running };

DataType shown_type(DataType type, Purpose purpose) {
  return purpose == Purpose::grouping && type == DataType::f16 && is_widened(type) ? DataType::f32
                                                                                   : type;
}

// `kind` is the operation's, or Wildcard in its place, which has no attributes.
dnnl::graph::op make_op(size_t number, dnnl::graph::op::kind kind, const Operation& operation,
                        const Region& region, const std::unordered_set<Id>& constants,
                        Purpose purpose) {
  auto describe = [&](const std::vector<Id>& ids) {
    std::vector<LogicalTensor> result;
    for (const Id id : ids) {
      const auto& value = region.value(id);
      result.emplace_back(static_cast<size_t>(id),
                          dnnl_layer::tensor_type(shown_type(value.type, purpose)), value.sizes,
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
  const auto attributes = is_global_pooling(operation)
                              ? with_window(operation, region.value(operation.inputs[0]).sizes)
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
                                                  const Region& region, Purpose purpose,
                                                  const Operation* shown = nullptr) {
  const auto constants = [&] {
    const auto ids = region.all_constants();
    return std::unordered_set<Id>(ids.begin(), ids.end());
  }();
  dnnl::graph::graph graph(dnnl::engine::kind::cpu);
  std::vector<dnnl::graph::op> ops;  // the graph keeps no copy while it is built
  ops.reserve(operations.size());
  for (const auto* operation : operations) {
    auto make = [&](dnnl::graph::op::kind kind) {
      return make_op(ops.size(), kind, *operation, region, constants, purpose);
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
std::vector<size_t> indices_of(const dnnl::graph::partition& partition) {
  auto indices = partition.get_ops();
  std::sort(indices.begin(), indices.end());
  return indices;
}

int64_t convolutions_of(std::span<const Operation* const> operations,
                        std::span<const size_t> indices) {
  return std::count_if(indices.begin(), indices.end(),
                       [&](size_t index) { return is_convolution(*operations[index]); });
}

// With AMX the library takes whole blocks of ResNets as one partition, in which it chooses the code
// of each convolution without timing it. This cuts out each convolution with its post-ops, as if it
// were alone.
void cut_apart(std::span<const Operation* const> all, std::vector<size_t> left,
               const Region& region, std::vector<FoundPartition>& result) {
  // Cuts out the partition of `shown`; all partitions if it is null.
  const auto cut = [&](const Operation* shown) {
    std::vector<const Operation*> operations;
    for (const size_t index : left) {
      operations.push_back(all[index]);
    }
    std::vector<size_t> taken;
    for (const auto& partition : partitions_of(operations, region, Purpose::grouping, shown)) {
      auto indices = indices_of(partition);
      for (size_t& index : indices) {
        index = left[index];
      }
      const bool has_it = std::any_of(indices.begin(), indices.end(),
                                      [&](size_t index) { return all[index] == shown; });
      if (has_it || shown == nullptr) {
        taken.insert(taken.end(), indices.begin(), indices.end());
        result.push_back({partition.is_supported(), std::move(indices)});
      }
    }
    std::erase_if(left, [&](size_t index) {
      return std::find(taken.begin(), taken.end(), index) != taken.end();
    });
  };
  for (const size_t index : std::vector<size_t>(left)) {
    if (is_convolution(*all[index])) {
      cut(all[index]);
    }
  }
  if (!left.empty()) {
    cut(nullptr);
  }
}

}  // namespace

std::vector<FoundPartition> find_partitions(const Region& region) {
  const auto operations = pointers(region.partitions);
  std::vector<FoundPartition> result;
  for (const auto& partition : partitions_of(operations, region, Purpose::grouping)) {
    auto indices = indices_of(partition);
    if (partition.is_supported() && convolutions_of(operations, indices) > 1) {
      cut_apart(operations, std::move(indices), region, result);
    } else {
      result.push_back({partition.is_supported(), std::move(indices)});
    }
  }
  return result;
}

dnnl::graph::partition as_one(const Region& region, const Partition& partition) {
  auto found = partitions_of(pointers({&partition, 1}), region, Purpose::running);
  if (found.size() != 1 || !found[0].is_supported()) {
    throw std::runtime_error("oneDNN Graph does not run these operations as one partition");
  }
  return found[0];
}

}  // namespace cpuaccel::plan
