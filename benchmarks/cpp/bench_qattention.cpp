#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "bench.h"
#include "data.h"
#include "kernels/attention/attention.h"
#include "kernels/qattention/qattention.h"

namespace cpuaccel::bench {
namespace {

struct Shape {
  int64_t N, H, L, E;
};

// all-MiniLM-L6-v2 and BERT-base with 16, 128 and 384 tokens.
constexpr Shape kShapes[] = {{1, 12, 16, 32}, {1, 12, 128, 32}, {1, 12, 384, 32},
                             {1, 12, 16, 64}, {1, 12, 128, 64}, {1, 12, 384, 64}};

constexpr double kMostForRef = 1e7;

int64_t elements(const Shape& s) { return s.N * s.L * s.H * s.E; }

// Heads lie side by side, as a linear layer writes them.
struct Data {
  explicit Data(const Shape& s)
      : query(uniform_u8(elements(s))),
        key(uniform_u8(elements(s))),
        value(uniform_u8(elements(s))),
        dst(query.size()) {
    const auto heads = [&](const std::vector<uint8_t>& of) {
      return kernels::HeadMatrix<const uint8_t>{of.data(), s.L * s.H * s.E, s.E, s.H * s.E, 1};
    };
    call.N = s.N, call.H = s.H, call.L = call.S = s.L, call.E = s.E;
    call.query = heads(query), call.key = heads(key), call.value = heads(value);
    call.dst_u8 = {dst.data(), s.L * s.H * s.E, s.E, s.H * s.E, 1};
    call.query_quantizer = call.key_quantizer = {0.02f, 121};
    call.value_quantizer = {0.02f, 125};
    call.weight_quantizer = {1.0f / 255, 0};
    call.dst_quantizer = {0.01f, 128};
    call.scale = 1.0f / std::sqrt(static_cast<float>(s.E));
  }
  std::vector<uint8_t> query, key, value, dst;
  kernels::QattentionCall call;
};

// The same attention in float, for comparison.
struct FloatData {
  explicit FloatData(const Shape& s)
      : query(normal_floats(elements(s))),
        key(normal_floats(elements(s))),
        value(normal_floats(elements(s))),
        dst(query.size()) {
    const auto heads = [&](const std::vector<float>& of) {
      return kernels::AttentionMatrix{of.data(), DataType::f32, s.L * s.H * s.E, s.E, s.H * s.E, 1};
    };
    call.N = s.N, call.H = s.H, call.L = call.S = s.L, call.E = s.E;
    call.query = heads(query), call.key = heads(key), call.value = heads(value);
    call.dst = {dst.data(), DataType::f32, s.L * s.H * s.E, s.E, s.H * s.E};
    call.scale = 1.0f / std::sqrt(static_cast<float>(s.E));
  }
  std::vector<float> query, key, value, dst;
  kernels::AttentionCall call;
};

Case qattention_case(const Shape& s) {
  Case item;
  item.shape = std::to_string(s.N) + "x" + std::to_string(s.H) + "x" + std::to_string(s.L) + "x" +
               std::to_string(s.L) + "x" + std::to_string(s.E);
  item.operations = 2.0 * static_cast<double>(s.N * s.H * s.L * s.L * s.E);
  item.rate = Rate::int8;
  item.prepare = [s, operations = item.operations] {
    const auto data = std::make_shared<const Data>(s);
    std::vector<Candidate> all = candidates(kernels::qattention_kernels(), [data](auto* function) {
      return [data, function] { kernels::qattention(data->call, function); };
    });
    std::erase_if(all, [&](const Candidate& candidate) {
      return left_out(candidate.isa, operations, kMostForRef);
    });
    const auto floats = std::make_shared<const FloatData>(s);
    const auto& row = kernels::first_usable(kernels::attention_kernels());
    all.push_back({"attention of f32", row.isa, [floats, function = row.function] {
                     kernels::attention(floats->call, function);
                   }});
    return all;
  };
  return item;
}

}  // namespace

Family bench_qattention() {
  Family family{"qattention", {}};
  for (const Shape& shape : kShapes) {
    family.cases.push_back(qattention_case(shape));
  }
  return family;
}

}  // namespace cpuaccel::bench
