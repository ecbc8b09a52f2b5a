#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bench.h"
#include "data.h"
#include "kernels/qgemm/qgemm.h"

namespace cpuaccel::bench {
namespace {

struct Shape {
  int64_t M, N, K;
};

// Layers of BERT-base and of Llama-7B, a 1x1 convolution of ResNet-50, classifiers.
constexpr Shape kShapes[] = {
    {1, 768, 768},    {16, 768, 768},  {128, 768, 768},    {1024, 768, 768},  {128, 3072, 768},
    {128, 768, 3072}, {1, 4096, 4096}, {16, 4096, 4096},   {128, 4096, 4096}, {3136, 64, 256},
    {1, 1000, 1280},  {1, 64, 64},     {1024, 1024, 1024},
};

constexpr double kMostForRef = 1e8;

struct Data {
  Data(const Shape& s, kernels::QgemmFunction* row)
      : src(uniform_u8(s.M * s.K)),
        dst(static_cast<size_t>(s.M * s.N)),
        floats(normal_floats(s.M * s.K)),
        real(dst.size()),
        scales(static_cast<size_t>(s.N), 1e-4f),
        weights(kernels::qgemm_pack({uniform_s8(s.K * s.N).data(), s.K, s.N, 1, s.K}, row)) {
    bytes.weights = &weights;
    bytes.M = s.M;
    bytes.src.data = src.data();
    bytes.src.row_stride = s.K;
    bytes.src.zero_point = 117;
    bytes.dst = {dst.data(), DataType::u8, s.N, scales.data(), scales.data()};
    dynamic = bytes;
    dynamic.src.data = floats.data();
    dynamic.src.type = kernels::QgemmSrcType::f32_rows_to_s8;
    dynamic.dst.data = real.data();
    dynamic.dst.type = DataType::f32;
  }
  std::vector<uint8_t> src, dst;
  std::vector<float> floats, real, scales;
  kernels::QgemmWeights weights;
  kernels::QgemmCall bytes, dynamic;
};

// From bytes to bytes; and from floats, quantized row by row, to floats.
std::vector<Candidate> both(const Shape& s, double operations) {
  std::vector<Candidate> all;
  for (const auto& row : kernels::qgemm_kernels()) {
    if (left_out(row.isa, operations, kMostForRef)) {
      continue;
    }
    const auto data = std::make_shared<const Data>(s, row.function);
    all.push_back({row.name, row.isa, [data] { (void)kernels::qgemm(data->bytes); }});
    all.push_back({std::string(row.name) + " dynamic", row.isa,
                   [data] { (void)kernels::qgemm(data->dynamic); }});
  }
  return all;
}

}  // namespace

Family bench_qgemm() {
  Family family{"qgemm", {}};
  for (const Shape& shape : kShapes) {
    Case item;
    item.shape =
        std::to_string(shape.M) + "x" + std::to_string(shape.N) + "x" + std::to_string(shape.K);
    item.operations = static_cast<double>(shape.M) * static_cast<double>(shape.N * shape.K);
    item.rate = Rate::int8;
    item.bytes_read = static_cast<double>(shape.M * shape.K + shape.K * shape.N);
    item.bytes_written = static_cast<double>(shape.M * shape.N);
    item.prepare = [shape, operations = item.operations] { return both(shape, operations); };
    family.cases.push_back(std::move(item));
  }
  return family;
}

}  // namespace cpuaccel::bench
