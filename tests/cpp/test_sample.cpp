#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <tuple>

#include "kernels/sample/sample.h"
#include "threads.h"

namespace cpuaccel::kernels {
namespace {

// Edges of one type, in both index widths.
struct Graph {
  Graph(int64_t dst_nodes, int64_t src_nodes, int64_t edges, uint32_t seed) {
    std::mt19937 random(seed);
    std::vector<int64_t> degrees(static_cast<size_t>(dst_nodes));
    for (int64_t e = 0; e < edges; ++e) {
      // A third of them end in one node, and some nodes have none.
      const size_t v = e % 3 == 0 ? 0 : random() % degrees.size();
      ++degrees[v % 7 == 5 ? 0 : v];
      row.push_back(static_cast<int64_t>(random() % static_cast<uint32_t>(src_nodes)));
    }
    colptr.push_back(0);
    for (const int64_t degree : degrees) {
      colptr.push_back(colptr.back() + degree);
    }
    narrow();
  }
  void narrow() {
    narrow_colptr.assign(colptr.begin(), colptr.end());
    narrow_row.assign(row.begin(), row.end());
  }
  SampleEdges edges(std::span<const int64_t> fan_out, bool wide = true, int64_t src_type = 0,
                    int64_t dst_type = 0) const {
    return {src_type,
            dst_type,
            static_cast<int64_t>(row.size()),
            wide ? static_cast<const void*>(colptr.data()) : narrow_colptr.data(),
            wide ? static_cast<const void*>(row.data()) : narrow_row.data(),
            wide,
            fan_out};
  }
  int64_t degree(int64_t node) const {
    return colptr[static_cast<size_t>(node) + 1] - colptr[static_cast<size_t>(node)];
  }
  std::vector<int64_t> colptr, row;
  std::vector<int32_t> narrow_colptr, narrow_row;
};

std::vector<int64_t> list(const Numbers& numbers) {
  return {numbers.data(), numbers.data() + numbers.size()};
}

// All lists of a sample, to compare.
std::vector<std::vector<int64_t>> all(const Sample& sample) {
  std::vector<std::vector<int64_t>> lists;
  for (const auto& each : sample.nodes) {
    lists.insert(lists.end(), {list(each.node), list(each.batch), each.of_hop});
  }
  for (const auto& each : sample.edges) {
    lists.insert(lists.end(), {list(each.src), list(each.dst), list(each.edge), each.of_hop});
  }
  return lists;
}

struct Settings {
  std::vector<int64_t> fan_out;
  bool replace = false, disjoint = false, induced = false;
  uint64_t seed = 1;
  bool wide = true;
};

constexpr int64_t kNodes = 900;

Sample sampled(const Graph& graph, const std::vector<int64_t>& seeds, const Settings& settings) {
  const std::vector<int64_t> nodes{kNodes};
  const std::vector<SampleEdges> edges{graph.edges(settings.fan_out, settings.wide)};
  const std::vector<SampleSeeds> starts{{0, seeds}};
  Sample sample;
  const auto fault =
      neighbor_sample({nodes, edges, starts, static_cast<int64_t>(settings.fan_out.size()),
                       settings.seed, settings.replace, settings.disjoint, settings.induced},
                      sample);
  EXPECT_FALSE(fault.has_value());
  return sample;
}

const Graph& graph() {
  static const Graph made(kNodes, kNodes, 12000, 1);
  return made;
}
const std::vector<int64_t> kSeeds{3, 0, 700, 3, 12, 5};

// Checks that a directional sample agrees with the graph and has the requested size.
void check(const Graph& a, const Settings& settings, const Sample& sample) {
  const auto& nodes = sample.nodes[0];
  const auto& edges = sample.edges[0];
  const int64_t hops = static_cast<int64_t>(settings.fan_out.size());
  ASSERT_EQ(static_cast<int64_t>(nodes.of_hop.size()), hops + 1);
  ASSERT_EQ(static_cast<int64_t>(edges.of_hop.size()), hops);
  ASSERT_TRUE(std::equal(kSeeds.begin(), kSeeds.end(), nodes.node.data()));
  const auto batch = [&](int64_t i) { return settings.disjoint ? nodes.batch[i] : 0; };
  std::set<std::pair<int64_t, int64_t>> distinct;
  for (int64_t i = static_cast<int64_t>(kSeeds.size()); i < nodes.node.size(); ++i) {
    ASSERT_TRUE(distinct.insert({batch(i), nodes.node[i]}).second);
  }
  int64_t e = 0, first = 0, last = 0;
  for (int64_t hop = 0; hop < hops; ++hop) {
    const int64_t fan_out = settings.fan_out[static_cast<size_t>(hop)];
    last += nodes.of_hop[static_cast<size_t>(hop)];
    const int64_t before = e;
    for (int64_t i = first; i < last; ++i) {
      const int64_t degree = a.degree(nodes.node[i]);
      const int64_t count = fan_out < 0        ? degree
                            : settings.replace ? (degree > 0 ? fan_out : 0)
                                               : std::min(fan_out, degree);
      std::set<int64_t> chosen;
      for (int64_t k = 0; k < count; ++k, ++e) {
        ASSERT_EQ(edges.dst[e], i);
        const int64_t edge = edges.edge[e];
        ASSERT_GE(edge, a.colptr[static_cast<size_t>(nodes.node[i])]);
        ASSERT_LT(edge, a.colptr[static_cast<size_t>(nodes.node[i]) + 1]);
        ASSERT_EQ(nodes.node[edges.src[e]], a.row[static_cast<size_t>(edge)]);
        ASSERT_EQ(batch(edges.src[e]), batch(i));
        chosen.insert(edge);
      }
      if (!settings.replace || fan_out < 0) {
        ASSERT_EQ(static_cast<int64_t>(chosen.size()), count);
      }
    }
    ASSERT_EQ(edges.of_hop[static_cast<size_t>(hop)], e - before);
    first = last;
  }
  ASSERT_EQ(e, edges.edge.size());
  ASSERT_EQ(last + nodes.of_hop.back(), nodes.node.size());
}

TEST(Sample, SaysWhatTheGraphSays) {
  for (const std::vector<int64_t>& fan_out :
       {std::vector<int64_t>{}, {4}, {-1}, {0, 3}, {5, 3, 2}, {-1, -1}, {200, 2}}) {
    for (const bool replace : {false, true}) {
      for (const bool disjoint : {false, true}) {
        for (const bool wide : {false, true}) {
          const Settings settings{fan_out, replace, disjoint, false, 4, wide};
          check(graph(), settings, sampled(graph(), kSeeds, settings));
        }
      }
    }
  }
}

TEST(Sample, TheSameOnAnyNumberOfThreads) {
  std::vector<int64_t> seeds(600);
  std::iota(seeds.begin(), seeds.end(), 100);
  for (const bool disjoint : {false, true}) {
    for (const bool induced : {false, true}) {
      const Settings settings{{20, 15}, false, disjoint, induced};
      const auto expected = all(sampled(graph(), seeds, settings));
      for (int count = 2; count <= 4; ++count) {
        const Threads threads(count);
        EXPECT_EQ(all(sampled(graph(), seeds, settings)), expected);
      }
    }
  }
}

TEST(Sample, TheSeedDecides) {
  const Settings one{{5, 5}};
  Settings other = one;
  other.seed = 2;
  EXPECT_EQ(all(sampled(graph(), kSeeds, one)), all(sampled(graph(), kSeeds, one)));
  EXPECT_NE(all(sampled(graph(), kSeeds, one)), all(sampled(graph(), kSeeds, other)));
}

TEST(Sample, EachNodeHasNumbersOfItsOwn) {
  const auto edge = list(sampled(graph(), {0, 0}, {{5}}).edges[0].edge);
  EXPECT_FALSE(std::equal(edge.begin(), edge.begin() + 5, edge.begin() + 5));
}

TEST(Sample, InducedHasEveryEdgeBetweenItsNodes) {
  for (const bool disjoint : {false, true}) {
    const Settings settings{{4, 3}, false, disjoint, true};
    const Sample sample = sampled(graph(), {3, 0, 700, 12}, settings);
    const auto& nodes = sample.nodes[0];
    const auto& edges = sample.edges[0];
    EXPECT_TRUE(edges.of_hop.empty());
    using Edge = std::tuple<int64_t, int64_t, int64_t>;
    std::vector<Edge> expected, got;
    for (int64_t i = 0; i < nodes.node.size(); ++i) {
      const auto node = static_cast<size_t>(nodes.node[i]);
      for (int64_t e = graph().colptr[node]; e < graph().colptr[node + 1]; ++e) {
        for (int64_t j = 0; j < nodes.node.size(); ++j) {
          if (nodes.node[j] == graph().row[static_cast<size_t>(e)] &&
              (!disjoint || nodes.batch[j] == nodes.batch[i])) {
            expected.emplace_back(j, i, e);
          }
        }
      }
    }
    for (int64_t e = 0; e < edges.edge.size(); ++e) {
      got.emplace_back(edges.src[e], edges.dst[e], edges.edge[e]);
    }
    EXPECT_EQ(got, expected);
  }
}

TEST(Sample, Types) {
  // Types 0 -> 1, 1 -> 0 and 1 -> 1, with seeds of both node types.
  const Graph to(60, 40, 700, 2), back(40, 60, 500, 3), own(60, 60, 300, 4);
  const std::vector<int64_t> nodes{40, 60}, three{3, 2}, all_of_them{-1, 0}, one{1, 1};
  const std::vector<SampleEdges> edges{to.edges(three, true, 0, 1),
                                       back.edges(all_of_them, false, 1, 0),
                                       own.edges(one, true, 1, 1)};
  const std::vector<int64_t> a{1, 7}, b{0, 59, 3};
  const std::vector<SampleSeeds> seeds{{1, b}, {0, a}};
  for (const bool disjoint : {false, true}) {
    Sample sample;
    SampleCall call{nodes, edges, seeds, 2, 5, false, disjoint, false};
    ASSERT_FALSE(neighbor_sample(call, sample));
    EXPECT_EQ(sample.nodes[0].of_hop[0], 2);
    EXPECT_EQ(sample.nodes[1].of_hop[0], 3);
    if (disjoint) {
      EXPECT_EQ(list(sample.nodes[1].batch)[2], 2);
      EXPECT_EQ(list(sample.nodes[0].batch)[0], 3);
    }
    const Graph* graphs[] = {&to, &back, &own};
    for (size_t t = 0; t < 3; ++t) {
      const auto& out = sample.edges[t];
      const auto& src = sample.nodes[static_cast<size_t>(edges[t].src_type)];
      const auto& dst = sample.nodes[static_cast<size_t>(edges[t].dst_type)];
      EXPECT_EQ(out.of_hop[0] + out.of_hop[1], out.edge.size());
      for (int64_t e = 0; e < out.edge.size(); ++e) {
        const auto edge = static_cast<size_t>(out.edge[e]);
        ASSERT_EQ(src.node[out.src[e]], graphs[t]->row[edge]);
        const auto node = static_cast<size_t>(dst.node[out.dst[e]]);
        ASSERT_GE(out.edge[e], graphs[t]->colptr[node]);
        ASSERT_LT(out.edge[e], graphs[t]->colptr[node + 1]);
      }
    }
    EXPECT_EQ(sample.edges[1].of_hop[0], back.degree(1) + back.degree(7));
    EXPECT_EQ(sample.edges[1].of_hop[1], 0);
  }
}

TEST(Sample, Faults) {
  const std::vector<int64_t> nodes{kNodes}, fan_out{-1, 2};
  const auto fault_of = [&](const Graph& a, const std::vector<int64_t>& seeds, bool induced,
                            bool wide = true) {
    const std::vector<SampleEdges> edges{a.edges(fan_out, wide)};
    const std::vector<SampleSeeds> starts{{0, seeds}};
    Sample sample;
    return neighbor_sample({nodes, edges, starts, 2, 1, false, false, induced}, sample);
  };
  for (const int64_t seed : {int64_t{-1}, kNodes, INT64_MIN, INT64_MAX}) {
    const auto fault = fault_of(graph(), {1, seed}, false);
    ASSERT_TRUE(fault);
    EXPECT_EQ(fault->what, SampleFault::What::seed);
    EXPECT_EQ(fault->place, 1);
    EXPECT_EQ(fault->value, seed);
  }
  for (int threads = 1; threads <= 3; ++threads) {
    const Threads some(threads);
    for (const int64_t node : {int64_t{-1}, kNodes, int64_t{INT32_MIN}}) {
      Graph broken = graph();
      const auto place = static_cast<size_t>(broken.colptr[0] + 2);
      broken.row[place] = broken.row[place + 1000] = node;
      broken.narrow();
      for (const bool wide : {false, true}) {
        const auto fault = fault_of(broken, {0}, false, wide);
        ASSERT_TRUE(fault);
        EXPECT_EQ(fault->what, SampleFault::What::row);
        EXPECT_EQ(fault->place, static_cast<int64_t>(place));
        EXPECT_EQ(fault->value, node);
      }
    }
    for (const int64_t pointer : {int64_t{-1}, int64_t{12001}, INT64_MAX, INT64_MIN}) {
      Graph broken = graph();
      broken.colptr[4] = pointer;
      const auto fault = fault_of(broken, {3}, false);
      ASSERT_TRUE(fault);
      EXPECT_EQ(fault->what, SampleFault::What::colptr);
      EXPECT_EQ(fault->place, 3);
      EXPECT_EQ(fault->other, pointer);
    }
  }
  // A node that is found last: only `induced` reads its edges.
  Graph broken = graph();
  for (auto& pointer : broken.colptr) {
    pointer = 0;
  }
  broken.colptr[kNodes] = -1;
  ASSERT_TRUE(fault_of(broken, {kNodes - 1}, true));
}

TEST(Sample, TooManyKeys) {
  const std::vector<int64_t> nodes{INT64_MAX / 2}, fan_out{1}, seeds{0, 1, 2};
  const std::vector<SampleEdges> edges{graph().edges(fan_out)};
  const std::vector<SampleSeeds> starts{{0, seeds}};
  Sample sample;
  const auto fault = neighbor_sample({nodes, edges, starts, 1, 1, false, true, false}, sample);
  ASSERT_TRUE(fault);
  EXPECT_EQ(fault->what, SampleFault::What::keys);
}

}  // namespace
}  // namespace cpuaccel::kernels
