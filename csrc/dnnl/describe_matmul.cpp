#include <bit>

#include "dnnl/data_type.h"
#include "dnnl/describe.h"
#include "dnnl/hash.h"

namespace cpuaccel::dnnl_layer {
namespace {

using dnnl::memory;

// A single product is passed to oneDNN as a 2-D one, for which it has more kernels.
memory::desc matrix(const MatmulProblem& p, DataType type, int64_t rows, int64_t columns,
                    const std::array<int64_t, 3>& strides) {
  if (p.batch == 1) {
    return {{rows, columns}, memory_type(type), memory::dims{strides[1], strides[2]}};
  }
  return {
      {p.batch, rows, columns}, memory_type(type), memory::dims(strides.begin(), strides.end())};
}

}  // namespace

dnnl::primitive_desc_base describe(const MatmulProblem& p) {
  const auto src = matrix(p, p.src_type, p.M, p.K, p.src_strides);
  auto weights = matrix(p, p.weights_type, p.K, p.N, p.weights_strides);
  if (p.packed_weights) {
    weights = {weights.get_dims(), memory_type(p.weights_type), memory::format_tag::any};
  }
  const auto dst = matrix(p, p.dst_type, p.M, p.N, p.dst_strides);
  memory::desc bias;
  if (p.bias) {
    bias = p.batch == 1
               ? memory::desc({1, p.N}, memory_type(p.dst_type), memory::format_tag::ab)
               : memory::desc({1, 1, p.N}, memory_type(p.dst_type), memory::format_tag::abc);
  }
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  dnnl::post_ops post;
  if (p.alpha != 1.0f) {
    post.append_eltwise(dnnl::algorithm::eltwise_linear, p.alpha, 0.0f);
  }
  if (p.beta != 0.0f) {
    post.append_sum(p.beta);
  }
  attr.set_post_ops(post);
  return dnnl::matmul::primitive_desc(engine(), src, weights, bias, dst, attr);
}

size_t hash(const MatmulProblem& p) noexcept {
  size_t seed = 1;
  hash_combine(seed, static_cast<uint64_t>(p.src_type) |
                         static_cast<uint64_t>(p.weights_type) << 2 |
                         static_cast<uint64_t>(p.dst_type) << 4 | uint64_t{p.bias} << 6 |
                         uint64_t{p.packed_weights} << 7 | static_cast<uint64_t>(p.isa) << 8 |
                         static_cast<uint64_t>(p.threads) << 32);
  hash_combine(seed, static_cast<uint64_t>(std::bit_cast<uint32_t>(p.alpha)) << 32 |
                         std::bit_cast<uint32_t>(p.beta));
  for (const int64_t value : {p.batch, p.M, p.N, p.K}) {
    hash_combine(seed, static_cast<uint64_t>(value));
  }
  for (const auto* strides : {&p.src_strides, &p.weights_strides, &p.dst_strides}) {
    for (const int64_t value : *strides) {
      hash_combine(seed, static_cast<uint64_t>(value));
    }
  }
  return seed;
}

std::string to_string(const MatmulProblem& p) {
  const auto name = [](DataType type) { return std::string(data_type_name(type)); };
  return std::string("matmul ") + name(p.src_type) + name(p.weights_type) + name(p.dst_type) +
         " b" + std::to_string(p.batch) + " m" + std::to_string(p.M) + " n" + std::to_string(p.N) +
         " k" + std::to_string(p.K) + " t" + std::to_string(p.threads);
}

}  // namespace cpuaccel::dnnl_layer
