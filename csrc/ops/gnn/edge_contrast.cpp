// cpuaccel::edge_contrast: the ratio of the features' size to that of their differences along
// edges, which bounds the rounding errors of EdgeConv.
//
// EdgeConv's W [y_m, x_n - y_m] = A y_m + B (x_n - y_m) is computed as (A - B) y_m + B x_n. Its
// rounding errors are those of |B| |y_m|; those of the first form are of |B| |x_n - y_m|. This op
// returns two ratios that say by how much the error bound grows:
//
//   nodes    = max over m of by_other . |y_m|
//                            / mean over the edges n -> m of by_other . |x_n - y_m|
//   features = max over k of sum over m of |y_mk|
//                            / sum over m of mean over n -> m of |x_nk - y_mk|
//
// by_other and by_own: the sums of |B| and |A| over the outputs, one number for each feature. A
// node whose differences are all 0 counts by_other . |y_m| / by_own . |y_m|. Edges of a node are
// read until its ratio is known to be at most `most`, usually one edge; such a node counts 0.
// `features` covers the edges that were read. A feature without differences is compared with the
// mean of the other features' differences. NaN if a number is not finite.
//
// Bound: a row of x and one of y for each node.

#include <ATen/Parallel.h>
#include <torch/library.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <tuple>
#include <vector>

#include "kernels/csr/cut.h"
#include "ops/gnn/edges.h"
#include "ops/gnn/rows.h"

namespace cpuaccel::ops {
namespace {

constexpr const char* kContrast = "cpuaccel::edge_contrast";
constexpr int64_t kBlock = 256;  // nodes whose values are summed before those of other blocks
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

template <typename Number>
struct Features {
  const Number *x, *y, *by_other, *by_own;
  int64_t K;
};

struct Block {
  double nodes = 0;  // NaN if a value was not finite
  std::vector<double> sizes, differences;
  bool good = true;
};

// Sum of weight[k] * |value(k)|, in lanes that compilers vectorize. Calls take(k, |value(k)|) for
// each k.
template <typename Number, typename Value, typename Take>
Number weighted(const Number* weight, int64_t K, const Value& value, const Take& take) {
  constexpr int64_t kLanes = 8;
  std::array<Number, kLanes> sums{}, sizes{};
  int64_t k = 0;
  for (; k + kLanes <= K; k += kLanes) {
    // All reads come before the writes, which may alias as far as the compiler knows.
    for (size_t lane = 0; lane < kLanes; ++lane) {
      sizes[lane] = std::abs(value(k + static_cast<int64_t>(lane)));
    }
    for (size_t lane = 0; lane < kLanes; ++lane) {
      sums[lane] += weight[k + static_cast<int64_t>(lane)] * sizes[lane];
    }
    for (size_t lane = 0; lane < kLanes; ++lane) {
      take(k + static_cast<int64_t>(lane), sizes[lane]);
    }
  }
  Number rest = 0;
  for (; k < K; ++k) {
    const Number size = std::abs(value(k));
    rest += weight[k] * size;
    take(k, size);
  }
  for (const Number sum : sums) {
    rest += sum;
  }
  return rest;
}

template <typename Number, typename Index>
Block contrast_of(const kernels::Csr& csr, const Features<Number>& rows, double most, int64_t begin,
                  int64_t end) {
  const int64_t K = rows.K;
  const auto count = static_cast<size_t>(K);
  std::vector<Number> all_sizes(count), all_differences(count), of_node(count);
  Number *sizes = all_sizes.data(), *differences = all_differences.data(), *node = of_node.data();
  const auto nothing = [](int64_t /*k*/, Number /*size*/) {};
  Block block;
  for (int64_t m = begin; m < end; ++m) {
    const int64_t first = csr.crow_as<Index>()[m], last = csr.crow_as<Index>()[m + 1];
    const Number* y = rows.y + m * K;
    const auto of_y = [y](int64_t k) { return y[k]; };
    if (first == last) {
      const double own = weighted(rows.by_other, K, of_y, nothing);
      // Sums multiply the value of its row by 0.
      block.nodes = std::isfinite(own) ? block.nodes : kNan;
      continue;
    }
    const double own =
        weighted(rows.by_other, K, of_y, [sizes](int64_t k, Number size) { sizes[k] += size; });
    const double enough = own * static_cast<double>(last - first) / most;
    double found = 0;
    int64_t e = first;
    // The first edge is always read, for `features`.
    do {
      const int64_t n = csr.col_as<Index>()[e];
      if (n < 0 || n >= csr.N) {
        block.good = false;
        return block;
      }
      const Number* x = rows.x + n * K;
      const auto difference = [x, y](int64_t k) { return x[k] - y[k]; };
      found += e == first ? weighted(rows.by_other, K, difference,
                                     [node](int64_t k, Number size) { node[k] = size; })
                          : weighted(rows.by_other, K, difference,
                                     [node](int64_t k, Number size) { node[k] += size; });
    } while (++e < last && !(found >= enough));
    const auto share = static_cast<Number>(1.0 / static_cast<double>(e - first));
    for (int64_t k = 0; k < K; ++k) {
      differences[k] += share * node[k];
    }
    double ratio = found >= enough ? 0 : own * static_cast<double>(last - first) / found;
    if (found == 0 && own > 0) {
      ratio = own / weighted(rows.by_own, K, of_y, nothing);
    }
    if (!std::isfinite(own) || !std::isfinite(found)) {
      ratio = kNan;
    }
    // Keeps NaN.
    block.nodes = block.nodes >= ratio || std::isnan(block.nodes) ? block.nodes : ratio;
  }
  block.sizes.assign(all_sizes.begin(), all_sizes.end());
  block.differences.assign(all_differences.begin(), all_differences.end());
  return block;
}

double of_features(const std::vector<double>& sizes, const std::vector<double>& differences) {
  double mean = 0;
  for (const double each : differences) {
    mean += each / static_cast<double>(differences.size());
  }
  double largest = 0;
  for (size_t k = 0; k < sizes.size(); ++k) {
    const double difference = differences[k] > 0 ? differences[k] : mean;
    if (!std::isfinite(sizes[k]) || !std::isfinite(difference)) {
      return kNan;
    }
    if (sizes[k] > 0) {
      largest = std::max(largest, sizes[k] / difference);
    }
  }
  return largest;
}

template <typename Number, typename Index>
std::tuple<double, double> contrast(const kernels::Csr& csr, const Features<Number>& rows,
                                    double most) {
  const int64_t blocks = (csr.M + kBlock - 1) / kBlock;
  std::vector<Block> found(static_cast<size_t>(blocks));
  at::parallel_for(0, blocks, 1, [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b) {
      found[static_cast<size_t>(b)] = contrast_of<Number, Index>(csr, rows, most, b * kBlock,
                                                                 std::min(csr.M, (b + 1) * kBlock));
    }
  });
  double nodes = 0;
  std::vector<double> sizes(static_cast<size_t>(rows.K)), differences(sizes.size());
  for (const auto& block : found) {
    check_edges_are_valid(kContrast, block.good);
    nodes = std::isnan(block.nodes) || block.nodes > nodes ? block.nodes : nodes;
    for (size_t k = 0; k < block.sizes.size(); ++k) {
      sizes[k] += block.sizes[k];
      differences[k] += block.differences[k];
    }
    if (std::isnan(nodes)) {
      break;
    }
  }
  return {nodes, of_features(sizes, differences)};
}

template <typename Number>
std::tuple<double, double> contrast(const Edges& graph, const Features<Number>& rows, double most) {
  return graph.csr.wide ? contrast<Number, int64_t>(graph.csr, rows, most)
                        : contrast<Number, int32_t>(graph.csr, rows, most);
}

std::tuple<double, double> edge_contrast(const at::Tensor& x, const at::Tensor& y,
                                         const at::Tensor& edges, const at::Tensor& by_other,
                                         const at::Tensor& by_own, double most) {
  check_rows(kContrast, "x", x, x.scalar_type());
  check_dense(kContrast, "y", y, x.scalar_type(), {y.size(0), x.size(1)});
  check_dense(kContrast, "by_other", by_other, x.scalar_type(), {x.size(1)});
  check_dense(kContrast, "by_own", by_own, x.scalar_type(), {x.size(1)});
  TORCH_CHECK(most > 0, kContrast, ": expected most to be above 0, but got ", most);
  const auto graph = edges_in(kContrast, edges, x.size(0), y.size(0));
  check_edges_are_valid(kContrast, kernels::csr_ascends(graph.csr));
  const at::Tensor src = x.contiguous(), dst = y.contiguous(), other = by_other.contiguous(),
                   own = by_own.contiguous();
  const auto run = [&]<typename Number>(Number /*type*/) {
    return contrast<Number>(
        graph,
        {src.const_data_ptr<Number>(), dst.const_data_ptr<Number>(), other.const_data_ptr<Number>(),
         own.const_data_ptr<Number>(), src.size(1)},
        most);
  };
  return x.scalar_type() == at::kDouble ? run(double{}) : run(float{});
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(cpuaccel, library) {
  library.def(
      "edge_contrast(Tensor x, Tensor y, Tensor edges, Tensor by_other, Tensor by_own, float most) "
      "-> (float, float)");
}

TORCH_LIBRARY_IMPL(cpuaccel, CPU, library) { library.impl("edge_contrast", edge_contrast); }

}  // namespace cpuaccel::ops
