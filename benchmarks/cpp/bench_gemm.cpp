#include <algorithm>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "bench.h"
#include "data.h"
#include "kernels/gemm/gemm.h"
#include "kernels/gemm/packed.h"
#include "kernels/gemm_bf16/gemm_bf16.h"

namespace cpuaccel::bench {
namespace {

struct Shape {
  int64_t M, N, K;
  bool transposed;  // B is N x K, as a linear layer's weight; otherwise K x N
};

// Layers of BERT-base and of Llama-7B, a square, and shapes of attention and of small models.
constexpr Shape kLayers[] = {{0, 768, 768, true},
                             {0, 3072, 768, true},
                             {0, 768, 3072, true},
                             {0, 4096, 4096, true},
                             {0, 11008, 4096, true}};
constexpr int64_t kRows[] = {1, 16, 128, 1024};
constexpr Shape kOthers[] = {
    {1024, 1024, 1024, false}, {1024, 1024, 1024, true}, {128, 768, 768, false},
    {16, 768, 768, false},     {4, 768, 768, false},     {1, 768, 768, false},
    {1, 4096, 4096, false},    {4096, 1, 4096, true},    {128, 128, 64, true},
    {128, 64, 128, false},     {32, 32, 32, false},      {8, 8, 8, false}};

// The reference kernel is not timed beyond this many operations: it would take seconds.
constexpr double kMostForRef = 1e8;
constexpr double kMost = 4e10;

// Repeats a block of random numbers: drawing each anew takes longer than the products.
std::vector<float> some_floats(int64_t count) {
  const auto block = normal_floats(std::min<int64_t>(count, 65521));
  std::vector<float> result(static_cast<size_t>(count));
  for (size_t i = 0; i < result.size(); i += block.size()) {
    std::copy_n(block.begin(), std::min(block.size(), result.size() - i),
                result.begin() + static_cast<std::ptrdiff_t>(i));
  }
  return result;
}

struct Data {
  explicit Data(const Shape& s)
      : a(some_floats(s.M * s.K)), b(some_floats(s.K * s.N)), dst(static_cast<size_t>(s.M * s.N)) {
    call.M = s.M;
    call.N = s.N;
    call.K = s.K;
    call.a = {a.data(), DataType::f32, s.K, 1, 0};
    call.b = {b.data(), DataType::f32, s.transposed ? 1 : s.N, s.transposed ? s.K : 1, 0};
    call.dst = {dst.data(), DataType::f32, s.N, 0};
  }
  std::vector<float> a, b, dst;
  kernels::GemmCall call;
};

// With plain B, and with packed B.
std::vector<Candidate> both(const Shape& s, double operations) {
  const auto data = std::make_shared<const Data>(s);
  std::vector<Candidate> all;
  for (const auto& row : kernels::gemm_kernels()) {
    if (left_out(row.isa, operations, kMostForRef)) {
      continue;
    }
    all.push_back({row.name, row.isa,
                   [data, function = row.function] { kernels::gemm(data->call, function); }});
    const auto packed =
        std::make_shared<const kernels::GemmPacked>(data->call.b, s.K, s.N, row.function);
    all.push_back({std::string(row.name) + " packed", row.isa, [data, packed] {
                     kernels::GemmCall call = data->call;
                     call.packed = packed.get();
                     kernels::gemm(call);
                   }});
  }
  return all;
}

// With f32 operands that the kernel rounds, and with B in bf16.
std::vector<Candidate> rounded(const Shape& s, double operations) {
  const auto data = std::make_shared<const Data>(s);
  // Any bits will do except NaNs.
  const auto halves = std::make_shared<std::vector<uint16_t>>(static_cast<size_t>(s.K * s.N));
  std::fill(halves->begin(), halves->end(), uint16_t{0x3f80});
  std::vector<Candidate> all;
  for (const auto& row : kernels::gemm_bf16_kernels()) {
    if (left_out(row.isa, operations, kMostForRef)) {
      continue;
    }
    all.push_back({row.name, row.isa,
                   [data, function = row.function] { kernels::gemm_bf16(data->call, function); }});
    all.push_back(
        {std::string(row.name) + " bf16 B", row.isa, [data, halves, function = row.function] {
           kernels::GemmCall call = data->call;
           call.b.data = halves->data();
           call.b.type = DataType::bf16;
           kernels::gemm_bf16(call, function);
         }});
  }
  return all;
}

Case gemm_case(const Shape& s) {
  Case item;
  item.shape = std::to_string(s.M) + "x" + std::to_string(s.N) + "x" + std::to_string(s.K) +
               (s.transposed ? " nt" : " nn");
  item.operations = static_cast<double>(s.M) * static_cast<double>(s.N * s.K);
  item.bytes_read = 4.0 * static_cast<double>(s.M * s.K + s.K * s.N);
  item.bytes_written = 4.0 * static_cast<double>(s.M * s.N);
  return item;
}

using Prepare = std::vector<Candidate>(const Shape& shape, double operations);

Family family_of(const char* name, Rate rate, Prepare* prepare) {
  Family family{name, {}};
  const auto add = [&](const Shape& shape) {
    Case item = gemm_case(shape);
    if (item.operations > kMost) {
      return;
    }
    item.rate = rate;
    item.prepare = [shape, prepare, operations = item.operations] {
      return prepare(shape, operations);
    };
    family.cases.push_back(std::move(item));
  };
  for (Shape shape : kLayers) {
    for (const int64_t M : kRows) {
      shape.M = M;
      add(shape);
    }
  }
  for (const Shape& shape : kOthers) {
    add(shape);
  }
  return family;
}

}  // namespace

Family bench_gemm() { return family_of("gemm", Rate::fp32, both); }
Family bench_gemm_bf16() { return family_of("gemm_bf16", Rate::bf16, rounded); }

}  // namespace cpuaccel::bench
