// cpuaccel::neighbor_sample: samples the neighborhoods of seed nodes (kernels/sample/sample.h), for
// homogeneous and heterogeneous graphs.
//
// Node types and edge types are numbers. colptr, row, src_type, dst_type: one for each edge type,
// in int32 or int64. num_nodes: one for each node type. seed_type, seeds: the node types with
// seeds, and their seeds. fan_out: `hops` numbers for each edge type. Returns, for each node type,
// its nodes and (if disjoint) the seeds that they belong to; for each edge type, its sources and
// destinations, as positions among these nodes, and its edges, as positions in row; then how many
// nodes (types x (hops + 1)) and edges (types x hops; none if induced) each hop found. All are
// int64.
//
// torch has no such op, so cpuaccel's kernel runs whether cpuaccel is on or off.

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <torch/library.h>

#include <limits>
#include <memory>
#include <tuple>
#include <utility>
#include <vector>

#include "kernels/sample/sample.h"
#include "ops/kernel_call.h"

namespace cpuaccel::ops {
namespace {

using kernels::Numbers;
using kernels::SampleFault;
using Tensors = std::vector<at::Tensor>;
using Sampled = std::tuple<Tensors, Tensors, Tensors, Tensors, Tensors, at::Tensor, at::Tensor>;

constexpr auto kNeighborSample = "cpuaccel::neighbor_sample";

void check_count(const char* name, size_t got, size_t expected, const char* of) {
  TORCH_CHECK_VALUE(got == expected, kNeighborSample, ": expected ", name, " of ", expected, " ",
                    of, ", but got ", got);
}

void check_type(const char* name, int64_t type, size_t types) {
  TORCH_CHECK_VALUE(type >= 0 && type < static_cast<int64_t>(types), kNeighborSample, ": expected ",
                    name, " to be at least 0 and below ", types,
                    ", the number of types of nodes, but got ", type);
}

void check_indices(const char* name, const at::Tensor& tensor) {
  const auto type = tensor.scalar_type();
  TORCH_CHECK_VALUE(tensor.layout() == at::kStrided && tensor.device().is_cpu() &&
                        tensor.dim() == 1 && (type == at::kInt || type == at::kLong),
                    kNeighborSample, ": expected ", name,
                    " to be a one-dimensional CPU tensor of int32 or int64, but got ",
                    tensor.sizes(), " of ", type, " on ", tensor.device());
}

// The arguments as the kernel takes them: pointers into the tensors, and into copies held here.
class Arguments {
 public:
  Arguments(at::TensorList colptr, at::TensorList row, at::IntArrayRef src_type,
            at::IntArrayRef dst_type, at::IntArrayRef num_nodes, at::IntArrayRef seed_type,
            at::TensorList seeds, at::IntArrayRef fan_out, int64_t hops) {
    const size_t types = num_nodes.size();
    for (const int64_t nodes : num_nodes) {
      TORCH_CHECK_VALUE(nodes >= 0, kNeighborSample, ": expected num_nodes of at least 0, but got ",
                        nodes);
    }
    check_count("row", row.size(), colptr.size(), "tensors, as colptr");
    check_count("src_type", src_type.size(), colptr.size(), "numbers, one for each colptr");
    check_count("dst_type", dst_type.size(), colptr.size(), "numbers, one for each colptr");
    TORCH_CHECK_VALUE(hops >= 0, kNeighborSample, ": expected hops of at least 0, but got ", hops);
    check_count("fan_out", fan_out.size(), colptr.size() * static_cast<size_t>(hops),
                "numbers, `hops` for each colptr");
    for (const int64_t number : fan_out) {
      TORCH_CHECK_VALUE(number >= -1 && number <= std::numeric_limits<int32_t>::max(),
                        kNeighborSample,
                        ": expected fan_out to be -1 (all neighbors) or a number of neighbors "
                        "below 2^31, but got ",
                        number);
    }
    nodes_ = {num_nodes.data(), types};
    for (size_t t = 0; t < colptr.size(); ++t) {
      check_type("src_type", src_type[t], types);
      check_type("dst_type", dst_type[t], types);
      const auto of_hops = fan_out.slice(t * static_cast<size_t>(hops), static_cast<size_t>(hops));
      add_edges(colptr[t], row[t], src_type[t], dst_type[t], {of_hops.data(), of_hops.size()});
    }
    add_seeds(seed_type, seeds);
  }
  Arguments(const Arguments&) = delete;
  Arguments& operator=(const Arguments&) = delete;

  kernels::SampleCall call(int64_t hops, int64_t seed) const {
    kernels::SampleCall call;
    call.nodes = nodes_;
    call.edges = edges_;
    call.seeds = seeds_;
    call.hops = hops;
    call.seed = static_cast<uint64_t>(seed);
    return call;
  }

 private:
  void add_edges(const at::Tensor& colptr, const at::Tensor& row, int64_t src_type,
                 int64_t dst_type, std::span<const int64_t> fan_out) {
    check_indices("colptr", colptr);
    check_indices("row", row);
    TORCH_CHECK_VALUE(colptr.scalar_type() == row.scalar_type(), kNeighborSample,
                      ": expected colptr and row of one type, but got ", colptr.scalar_type(),
                      " and ", row.scalar_type());
    const int64_t nodes = nodes_[static_cast<size_t>(dst_type)];
    TORCH_CHECK_VALUE(colptr.numel() - 1 == nodes, kNeighborSample, ": expected colptr of ", nodes,
                      " + 1 numbers, for ", nodes, " nodes, but got ", colptr.numel());
    const at::Tensor& pointers = copies_.emplace_back(colptr.contiguous());
    kernels::SampleEdges edges;
    edges.src_type = src_type;
    edges.dst_type = dst_type;
    edges.edges = row.numel();
    edges.colptr = pointers.const_data_ptr();
    edges.row = copies_.emplace_back(row.contiguous()).const_data_ptr();
    edges.wide = row.scalar_type() == at::kLong;
    edges.fan_out = fan_out;
    edges_.push_back(edges);
  }

  void add_seeds(at::IntArrayRef seed_type, at::TensorList seeds) {
    check_count("seed_type", seed_type.size(), seeds.size(), "numbers, one for each of seeds");
    std::vector<bool> given(nodes_.size());
    for (size_t i = 0; i < seeds.size(); ++i) {
      check_indices("seeds", seeds[i]);
      check_type("seed_type", seed_type[i], nodes_.size());
      TORCH_CHECK_VALUE(!given[static_cast<size_t>(seed_type[i])], kNeighborSample,
                        ": expected seed_type to have each type once, but got ", seed_type);
      given[static_cast<size_t>(seed_type[i])] = true;
      const at::Tensor& nodes = copies_.emplace_back(seeds[i].to(at::kLong).contiguous());
      seeds_.push_back(
          {seed_type[i], {nodes.const_data_ptr<int64_t>(), static_cast<size_t>(nodes.numel())}});
    }
  }

  Tensors copies_;
  std::span<const int64_t> nodes_;
  std::vector<kernels::SampleEdges> edges_;
  std::vector<kernels::SampleSeeds> seeds_;
};

void check_fault(const std::optional<SampleFault>& fault, const kernels::SampleCall& call) {
  if (!fault) {
    return;
  }
  const auto& [what, type, place, value, other] = *fault;
  const auto t = static_cast<size_t>(type);
  TORCH_CHECK_VALUE(what != SampleFault::What::colptr, kNeighborSample,
                    ": expected colptr of edge type ", type, " to ascend from 0 to ",
                    call.edges[t].edges, ", the length of row, but got ", value, " and then ",
                    other, " at node ", place);
  TORCH_CHECK_INDEX(what != SampleFault::What::row, kNeighborSample, ": expected row of edge type ",
                    type, " to be nodes of at least 0 and below ",
                    call.nodes[static_cast<size_t>(call.edges[t].src_type)], ", but got ", value,
                    " at edge ", place);
  TORCH_CHECK_INDEX(what != SampleFault::What::seed, kNeighborSample,
                    ": expected seeds of node type ", type, " to be nodes of at least 0 and below ",
                    other, ", but got ", value, " at position ", place);
  TORCH_CHECK_VALUE(false, kNeighborSample,
                    ": expected fewer than 2^63 seeds times nodes where samples are "
                    "disjoint, but got ",
                    value, " seeds of ", other, " nodes");
}

// Without a copy.
at::Tensor as_tensor(Numbers& numbers) {
  const int64_t size = numbers.size();
  if (size == 0) {
    return at::empty({0}, at::kLong);
  }
  const std::shared_ptr<int64_t[]> memory = numbers.release();
  return at::from_blob(memory.get(), {size}, [memory](void*) {}, at::kLong);
}

template <typename Each>
at::Tensor counts(const std::vector<Each>& types, int64_t hops) {
  at::Tensor result = at::empty({static_cast<int64_t>(types.size()), hops}, at::kLong);
  auto* to = result.mutable_data_ptr<int64_t>();
  for (const Each& type : types) {
    to = std::copy(type.of_hop.begin(), type.of_hop.end(), to);
  }
  return result;
}

Sampled neighbor_sample(at::TensorList colptr, at::TensorList row, at::IntArrayRef src_type,
                        at::IntArrayRef dst_type, at::IntArrayRef num_nodes,
                        at::IntArrayRef seed_type, at::TensorList seeds, at::IntArrayRef fan_out,
                        int64_t hops, int64_t seed, bool replace, bool disjoint, bool induced) {
  const Arguments arguments(colptr, row, src_type, dst_type, num_nodes, seed_type, seeds, fan_out,
                            hops);
  kernels::SampleCall call = arguments.call(hops, seed);
  call.replace = replace;
  call.disjoint = disjoint;
  call.induced = induced;
  CPUACCEL_KERNEL_CALL(neighbor_sample);
  kernels::Sample sample;
  check_fault(kernels::neighbor_sample(call, sample), call);
  Sampled result;
  auto& [node, batch, src, dst, edge, nodes_of_hop, edges_of_hop] = result;
  nodes_of_hop = counts(sample.nodes, hops + 1);
  edges_of_hop = counts(sample.edges, induced ? 0 : hops);
  for (auto& nodes : sample.nodes) {
    node.push_back(as_tensor(nodes.node));
    batch.push_back(as_tensor(nodes.batch));
  }
  for (auto& edges : sample.edges) {
    src.push_back(as_tensor(edges.src));
    dst.push_back(as_tensor(edges.dst));
    edge.push_back(as_tensor(edges.edge));
  }
  return result;
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(cpuaccel, library) {
  library.def(
      "neighbor_sample(Tensor[] colptr, Tensor[] row, int[] src_type, int[] dst_type, "
      "int[] num_nodes, int[] seed_type, Tensor[] seeds, int[] fan_out, int hops, int seed, "
      "bool replace=False, bool disjoint=False, bool induced=False) -> (Tensor[] node, "
      "Tensor[] batch, Tensor[] src, Tensor[] dst, Tensor[] edge, Tensor nodes_of_hop, "
      "Tensor edges_of_hop)");
}

TORCH_LIBRARY_IMPL(cpuaccel, CPU, library) { library.impl("neighbor_sample", neighbor_sample); }

}  // namespace cpuaccel::ops
