#include "kernels/sample/sample.h"

#include <algorithm>
#include <limits>
#include <stdexcept>

#include "kernels/sample/hop.h"
#include "kernels/sample/node_table.h"

namespace cpuaccel::kernels {
namespace {

constexpr size_t kKeptBytes = size_t{64} << 20;

// Per-thread memory, cached for the next sample: fresh memory costs more than the work in it.
struct Kept {
  std::vector<NodeTable> tables;
  SampleScratch scratch;
};

Kept& kept() {
  thread_local Kept memory;
  return memory;
}

int64_t size_of(const SampledNodes& nodes) { return nodes.node.size(); }

class Sampler {
 public:
  Sampler(const SampleCall& call, Sample& sample)
      : call_(call), sample_(sample), kept_(kept()), frontiers_(call.nodes.size()) {
    sample_ = {};
    sample_.nodes.resize(call.nodes.size());
    sample_.edges.resize(call.edges.size());
    kept_.tables.resize(std::max(kept_.tables.size(), call.nodes.size()));
    for (NodeTable& table : kept_.tables) {
      table.clear();
    }
  }

  ~Sampler() {
    size_t bytes = kept_.scratch.bytes();
    for (const NodeTable& table : kept_.tables) {
      bytes += table.bytes();
    }
    if (bytes > kKeptBytes) {
      kept_ = {};
    }
  }
  Sampler(const Sampler&) = delete;
  Sampler& operator=(const Sampler&) = delete;

  std::optional<SampleFault> run() {
    if (auto fault = add_seeds()) {
      return fault;
    }
    for (int64_t hop = 0; hop < call_.hops; ++hop) {
      if (auto fault = step(hop)) {
        return fault;
      }
    }
    for (size_t type = 0; call_.induced && type < call_.edges.size(); ++type) {
      if (auto fault = induce_edges(call_, static_cast<int64_t>(type),
                                    table(call_.edges[type].src_type), sample_)) {
        return fault;
      }
    }
    return std::nullopt;
  }

 private:
  NodeTable& table(int64_t type) { return kept_.tables[static_cast<size_t>(type)]; }

  std::optional<SampleFault> add_seeds() {
    int64_t batch = 0, seeds = 0;
    for (const SampleSeeds& each : call_.seeds) {
      seeds += static_cast<int64_t>(each.nodes.size());
    }
    if (seeds > NodeTable::kMostNodes) {
      throw std::length_error("more than 2^31 - 1 seeds");
    }
    for (size_t type = 0; call_.disjoint && type < call_.nodes.size(); ++type) {
      if (call_.nodes[type] > 0 &&
          seeds > std::numeric_limits<int64_t>::max() / call_.nodes[type] - 1) {
        return SampleFault{SampleFault::What::keys, static_cast<int64_t>(type), 0, seeds,
                           call_.nodes[type]};
      }
    }
    for (const SampleSeeds& each : call_.seeds) {
      const int64_t N = call_.nodes[static_cast<size_t>(each.type)];
      SampledNodes& nodes = sample_.nodes[static_cast<size_t>(each.type)];
      for (size_t i = 0; i < each.nodes.size(); ++i) {
        const int64_t node = each.nodes[i];
        if (static_cast<uint64_t>(node) >= static_cast<uint64_t>(N)) {
          return SampleFault{SampleFault::What::seed, each.type, static_cast<int64_t>(i), node, N};
        }
        table(each.type).insert(call_.disjoint ? sample_key(batch, N, node) : node, size_of(nodes));
        nodes.node.push_back(node);
        if (call_.disjoint) {
          nodes.batch.push_back(batch++);
        }
      }
    }
    end_of_hop();
    return std::nullopt;
  }

  std::optional<SampleFault> step(int64_t hop) {
    for (size_t type = 0; type < call_.edges.size(); ++type) {
      const SampleEdges& edges = call_.edges[type];
      SampledEdges& out = sample_.edges[type];
      const int64_t before = out.edge.size();
      if (auto fault =
              sample_hop(call_, static_cast<int64_t>(type), edges.fan_out[static_cast<size_t>(hop)],
                         frontiers_[static_cast<size_t>(edges.dst_type)], table(edges.src_type),
                         kept_.scratch, sample_)) {
        return fault;
      }
      out.of_hop.push_back(out.edge.size() - before);
    }
    end_of_hop();
    return std::nullopt;
  }

  // The nodes found since the last hop become the next frontier.
  void end_of_hop() {
    for (size_t type = 0; type < frontiers_.size(); ++type) {
      frontiers_[type] = {frontiers_[type].end, size_of(sample_.nodes[type])};
      sample_.nodes[type].of_hop.push_back(frontiers_[type].end - frontiers_[type].begin);
    }
  }

  const SampleCall& call_;
  Sample& sample_;
  Kept& kept_;
  std::vector<Frontier> frontiers_;
};

}  // namespace

std::optional<SampleFault> neighbor_sample(const SampleCall& call, Sample& sample) {
  return Sampler(call, sample).run();
}

}  // namespace cpuaccel::kernels
