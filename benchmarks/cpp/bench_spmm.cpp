#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "base/scratch.h"
#include "bench.h"
#include "data.h"
#include "graph.h"
#include "kernels/sddmm/sddmm.h"
#include "kernels/spmm/spmm.h"

namespace cpuaccel::bench {
namespace {

// 131,072 nodes and 4.2 million edges, whose rows of 64 columns exceed every L2, and a small graph.
struct Size {
  int scale;
  int64_t edges;
  int64_t nodes() const { return int64_t{1} << scale; }
};
constexpr Size kLarge{17, 4194304}, kSmall{12, 32768};
constexpr int64_t kIndexAndValue = 8 + 4;

struct Shape {
  Size size;
  int64_t K;
  double edges() const { return static_cast<double>(size.edges); }
  double nodes() const { return static_cast<double>(size.nodes()); }
  double row() const { return 4.0 * static_cast<double>(K); }
};

struct Data {
  explicit Data(const Shape& shape)
      : graph(shape.size.scale, shape.size.edges),
        values(normal_floats(shape.size.edges)),
        src(block(shape.size.nodes() * shape.K)),
        dst(block(std::max(shape.size.nodes() * shape.K, shape.size.edges))),
        arg(static_cast<size_t>(shape.size.nodes() * shape.K)) {
    const auto numbers = normal_floats(65521);
    for (int64_t i = 0; i < shape.size.nodes() * shape.K; ++i) {
      floats(src)[i] = numbers[static_cast<size_t>(i) % numbers.size()];
    }
  }
  static AlignedBlock block(int64_t count) { return aligned_block(static_cast<size_t>(4 * count)); }
  static float* floats(const AlignedBlock& from) { return reinterpret_cast<float*>(from.get()); }

  Graph graph;
  std::vector<float> values;
  AlignedBlock src, dst;
  std::vector<int64_t> arg;
};

Case case_of(const Shape& shape, const std::string& what) {
  Case item;
  item.shape = std::to_string(shape.size.nodes()) + " nodes, " + std::to_string(shape.size.edges) +
               " edges, K " + std::to_string(shape.K) + ", " + what;
  item.operations = shape.edges() * static_cast<double>(shape.K);
  item.rate = Rate::fp32;
  return item;
}

// The bound moves a row of src for every edge, at the bandwidth of a working set of that size.
void set_bound(Case& item, const Shape& shape, double written) {
  item.bytes_read = shape.edges() * kIndexAndValue + shape.nodes() * (8 + shape.row());
  item.bytes_written = written;
  item.bound = [shape, written](const Peaks& peaks, Isa) {
    return peaks.moving(shape.edges() * (kIndexAndValue + shape.row()), written);
  };
}

Case spmm_case(const Shape& shape, const std::string& what, kernels::Reduce reduce, bool arg) {
  Case item = case_of(shape, what);
  set_bound(item, shape, shape.nodes() * (shape.row() + (arg ? 8.0 * shape.row() / 4 : 0)));
  item.prepare = [=] {
    const auto data = std::make_shared<Data>(shape);
    kernels::SpmmCall call{.csr = data->graph.csr(), .K = shape.K, .reduce = reduce};
    call.values = data->values.data();
    call.src = data->src.get();
    call.src_stride = shape.K;
    call.dst = data->dst.get();
    call.arg = arg ? data->arg.data() : nullptr;
    return candidates(kernels::spmm_kernels(), [=](auto* function) {
      return [data, call, function] { kernels::spmm(call, function); };
    });
  };
  return item;
}

Case sddmm_case(const Shape& shape) {
  Case item = case_of(shape, "sddmm");
  set_bound(item, shape, 4 * shape.edges());
  item.prepare = [=] {
    const auto data = std::make_shared<Data>(shape);
    kernels::SddmmCall call{.csr = data->graph.csr(), .K = shape.K};
    call.a = call.b = data->src.get();
    call.a_stride = call.b_stride = shape.K;
    call.dst = data->dst.get();
    return candidates(kernels::sddmm_kernels(), [=](auto* function) {
      return [data, call, function] { kernels::sddmm(call, function); };
    });
  };
  return item;
}

}  // namespace

Family bench_spmm() {
  Family family{"spmm", {}};
  for (const int64_t K : {1, 4, 8, 16, 64, 100, 128, 256}) {
    family.cases.push_back(spmm_case({kLarge, K}, "sum", kernels::Reduce::sum, false));
  }
  for (const Size& size : {kSmall, kLarge}) {
    const Shape shape{size, size.scale == kSmall.scale ? 16 : 64};
    family.cases.push_back(spmm_case(shape, "mean", kernels::Reduce::mean, false));
    family.cases.push_back(spmm_case(shape, "amax", kernels::Reduce::amax, false));
    family.cases.push_back(spmm_case(shape, "amax and arg", kernels::Reduce::amax, true));
    family.cases.push_back(sddmm_case(shape));
  }
  return family;
}

}  // namespace cpuaccel::bench
