#include "graph/partitions.h"

#include <algorithm>
#include <numeric>
#include <span>
#include <stdexcept>
#include <unordered_set>

#include "graph/names.h"

namespace cpuaccel::graph {
namespace {

using LogicalTensor = dnnl::graph::logical_tensor;
using Property = LogicalTensor::property_type;

// `kind`: the operation's, or Wildcard in its place, which has no attributes.
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
  for (const auto& [name, value] : operation.attributes) {
    std::visit([&, key = *attribute_of(name)](const auto& held) { op.set_attr(key, held); }, value);
  }
  return op;
}

std::vector<dnnl::graph::partition> partitions_of(std::span<const Operation* const> operations,
                                                  const Program& program) {
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
    ops.push_back(make(operation->kind.value()));
    try {
      graph.add_op(ops.back());
    } catch (const dnnl::error&) {
      // Nothing that the library knows: a type that this op has not, for one.
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

}  // namespace

std::vector<FoundPartition> find_partitions(const Program& program) {
  std::vector<FoundPartition> result;
  for (const auto& partition : partitions_of(pointers(program.partitions), program)) {
    auto operations = partition.get_ops();
    std::sort(operations.begin(), operations.end());
    result.push_back({partition.is_supported(), std::move(operations)});
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

}  // namespace cpuaccel::graph
