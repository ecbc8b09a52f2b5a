#include <algorithm>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "bench.h"
#include "data.h"
#include "kernels/gemm_wq/gemm_wq.h"
#include "kernels/qgemm_wq/qgemm_wq.h"

namespace cpuaccel::bench {
namespace {

using kernels::WqFormat;

struct Layer {
  int64_t N, K;
};

// Layers of Qwen2.5-0.5B, Llama-3.2-1B and Llama-3-8B.
constexpr Layer kLayers[] = {{896, 896}, {4864, 896}, {2048, 2048}, {8192, 2048}, {4096, 4096}};
constexpr int64_t kRows[] = {1, 4, 8, 16, 128, 512};

// The reference kernel is not timed beyond this many operations: it would take seconds.
constexpr double kMostForRef = 1e7;

std::vector<WqFormat> formats() {
  return {{.bits = 4, .group = 32, .scales = DataType::f16},
          {.bits = 4, .group = 128, .scales = DataType::bf16, .zeros = kernels::WqZeros::integers},
          {.bits = 8, .group = 32, .scales = DataType::f16}};
}

struct Data {
  Data(const Layer& layer, const WqFormat& format, int64_t rows)
      : M(rows),
        src(normal_floats(rows * layer.K)),
        bytes(uniform_s8(rows * layer.K)),
        scales(static_cast<size_t>(rows), 0.01f),
        dst(static_cast<size_t>(rows * layer.N)),
        weights(format, layer.N, layer.K) {
    const int64_t groups = layer.K / format.group;
    const auto codes = format.bits == 4 ? uniform_s8(kernels::kWqColumns * layer.K, 0, 15)
                                        : uniform_s8(kernels::kWqColumns * layer.K);
    const auto integers = uniform_s8(kernels::kWqColumns * groups, 0, 15);
    const std::vector<float> of_codes(integers.size(), 0.01f);
    for (int64_t panel = 0; panel < weights.panels(); ++panel) {
      weights.set_panel(panel, {.codes = codes.data(),
                                .code_stride = layer.K,
                                .scales = of_codes.data(),
                                .integers = integers.data(),
                                .reals = nullptr,
                                .scale_stride = groups});
    }
  }

  int64_t M;
  std::vector<float> src;
  std::vector<int8_t> bytes;
  std::vector<float> scales;
  mutable std::vector<float> dst;
  kernels::WqWeights weights;
};

std::vector<Candidate> of_floats(const std::shared_ptr<const Data>& data, double operations) {
  std::vector<Candidate> all;
  for (const auto& row : kernels::gemm_wq_kernels()) {
    if (!left_out(row.isa, operations, kMostForRef)) {
      all.push_back({row.name, row.isa, [data, function = row.function] {
                       kernels::gemm_wq(
                           {.weights = &data->weights,
                            .M = data->M,
                            .src = data->src.data(),
                            .src_stride = data->weights.K(),
                            .dst = {.data = data->dst.data(), .stride = data->weights.N()}},
                           function);
                     }});
    }
  }
  return all;
}

std::vector<Candidate> of_bytes(const std::shared_ptr<const Data>& data, double operations) {
  std::vector<Candidate> all;
  for (const auto& row : kernels::qgemm_wq_kernels()) {
    if (!left_out(row.isa, operations, kMostForRef)) {
      all.push_back({row.name, row.isa, [data, function = row.function] {
                       kernels::qgemm_wq(
                           {.weights = &data->weights,
                            .M = data->M,
                            .src = data->bytes.data(),
                            .scales = data->scales.data(),
                            .dst = {.data = data->dst.data(), .stride = data->weights.N()}},
                           function);
                     }});
    }
  }
  return all;
}

using Prepare = std::vector<Candidate>(const std::shared_ptr<const Data>& data, double operations);

Family family_of(const char* name, Rate rate, double src_bytes, Prepare* prepare) {
  Family family{name, {}};
  for (const Layer& layer : kLayers) {
    for (const WqFormat& format : formats()) {
      for (const int64_t M : kRows) {
        Case item;
        item.shape = std::to_string(M) + "x" + std::to_string(layer.N) + "x" +
                     std::to_string(layer.K) + " w" + std::to_string(format.bits) + " g" +
                     std::to_string(format.group);
        const kernels::WqLayout layout(format, layer.K);
        const auto panels = static_cast<double>(layer.N / kernels::kWqColumns);
        item.operations = static_cast<double>(M) * static_cast<double>(layer.N * layer.K);
        item.rate = rate;
        item.bytes_read = panels * static_cast<double>(layout.panel_bytes) +
                          src_bytes * static_cast<double>(M * layer.K);
        item.bytes_written = 4.0 * static_cast<double>(M * layer.N);
        item.prepare = [layer, format, M, prepare, operations = item.operations] {
          return prepare(std::make_shared<const Data>(layer, format, M), operations);
        };
        family.cases.push_back(std::move(item));
      }
    }
  }
  return family;
}

}  // namespace

Family bench_gemm_wq() { return family_of("gemm_wq", Rate::fp32, 4.0, of_floats); }
Family bench_qgemm_wq() { return family_of("qgemm_wq", Rate::int8, 1.0, of_bytes); }

}  // namespace cpuaccel::bench
