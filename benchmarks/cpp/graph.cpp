#include "graph.h"

#include <algorithm>
#include <numeric>
#include <random>
#include <utility>

namespace cpuaccel::bench {
namespace {

using Edge = std::pair<int64_t, int64_t>;

Edge drawn_edge(int scale, std::mt19937_64& random) {
  std::uniform_real_distribution<double> any;
  Edge edge{0, 0};
  for (int bit = 0; bit < scale; ++bit) {
    const double quarter = any(random);
    edge.first = 2 * edge.first + (quarter >= 0.76 ? 1 : 0);
    edge.second =
        2 * edge.second + (quarter >= 0.95 || (quarter >= 0.57 && quarter < 0.76) ? 1 : 0);
  }
  return edge;
}

}  // namespace

Graph::Graph(int scale, int64_t edges)
    : crow_((size_t{1} << scale) + 1), col_(static_cast<size_t>(edges)) {
  std::mt19937_64 random(1);
  std::vector<int64_t> names(size_t{1} << scale);
  std::iota(names.begin(), names.end(), 0);
  std::shuffle(names.begin(), names.end(), random);
  std::vector<Edge> all(static_cast<size_t>(edges));
  for (auto& [row, column] : all) {
    const Edge edge = drawn_edge(scale, random);
    row = names[static_cast<size_t>(edge.first)];
    column = names[static_cast<size_t>(edge.second)];
  }
  std::sort(all.begin(), all.end());
  for (size_t e = 0; e < all.size(); ++e) {
    ++crow_[static_cast<size_t>(all[e].first) + 1];
    col_[e] = all[e].second;
  }
  std::partial_sum(crow_.begin(), crow_.end(), crow_.begin());
}

kernels::Csr Graph::csr() const {
  const auto nodes = static_cast<int64_t>(crow_.size()) - 1;
  return {nodes, nodes, static_cast<int64_t>(col_.size()), crow_.data(), col_.data(), true};
}

}  // namespace cpuaccel::bench
