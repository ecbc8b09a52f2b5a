#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "bench.h"
#include "data.h"
#include "kernels/attention/attention.h"

namespace cpuaccel::bench {
namespace {

struct Shape {
  int64_t N, H, L, S, E;
};

// BERT-base with 16, 128 and 512 tokens and with a batch of 8; MiniLM; and a head of 128, as in
// large language models.
constexpr Shape kShapes[] = {{1, 12, 16, 16, 64},   {1, 12, 128, 128, 64},  {8, 12, 128, 128, 64},
                             {1, 12, 512, 512, 64}, {1, 12, 16, 16, 32},    {1, 12, 128, 128, 32},
                             {1, 12, 384, 384, 32}, {1, 8, 1024, 1024, 128}};

constexpr double kMostForRef = 1e7;

// Heads lie side by side, as a linear layer writes them. Operands of bf16 arithmetic are f32 too:
// rounding them is part of the kernel's work under fast math.
struct Data {
  explicit Data(const Shape& s, bool bf16)
      : query(normal_floats(s.N * s.L * s.H * s.E)),
        key(normal_floats(s.N * s.S * s.H * s.E)),
        value(normal_floats(s.N * s.S * s.H * s.E)),
        dst(query.size()),
        logsumexp(static_cast<size_t>(s.N * s.L * s.H)) {
    const int64_t width = s.H * s.E;
    const auto heads = [&](const std::vector<float>& of, int64_t rows) {
      return kernels::AttentionMatrix{of.data(), DataType::f32, rows * width, s.E, width, 1};
    };
    call.N = s.N, call.H = s.H, call.L = s.L, call.S = s.S, call.E = s.E;
    call.query = heads(query, s.L);
    call.key = heads(key, s.S);
    call.value = heads(value, s.S);
    call.dst = {dst.data(), DataType::f32, s.L * width, s.E, width};
    call.logsumexp = {logsumexp.data(), DataType::f32, s.L * s.H, 1, s.H};
    call.scale = 1.0f / std::sqrt(static_cast<float>(s.E));
    call.bf16 = bf16;
  }
  std::vector<float> query, key, value, dst, logsumexp;
  kernels::AttentionCall call;
};

Case attention_case(const Shape& s, bool bf16) {
  Case item;
  item.shape = std::string(bf16 ? "bf16 " : "f32 ") + std::to_string(s.N) + "x" +
               std::to_string(s.H) + "x" + std::to_string(s.L) + "x" + std::to_string(s.S) + "x" +
               std::to_string(s.E);
  item.operations = 2.0 * static_cast<double>(s.N * s.H * s.L * s.S * s.E);
  item.rate = bf16 ? Rate::bf16 : Rate::fp32;
  item.prepare = [s, bf16, operations = item.operations] {
    const auto data = std::make_shared<const Data>(s, bf16);
    std::vector<Candidate> all = candidates(kernels::attention_kernels(), [data](auto* function) {
      return [data, function] { kernels::attention(data->call, function); };
    });
    std::erase_if(all, [&](const Candidate& candidate) {
      return left_out(candidate.isa, operations, kMostForRef);
    });
    return all;
  };
  return item;
}

}  // namespace

Family bench_attention() {
  Family family{"attention", {}};
  for (const bool bf16 : {false, true}) {
    if (bf16 && !has_bf16_arithmetic()) {
      continue;
    }
    for (const Shape& shape : kShapes) {
      family.cases.push_back(attention_case(shape, bf16));
    }
  }
  return family;
}

}  // namespace cpuaccel::bench
