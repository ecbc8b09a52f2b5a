#include "dnnl/problem.h"

#include <bit>
#include <functional>
#include <numeric>

#include "dnnl/hash.h"

namespace cpuaccel::dnnl_layer {
namespace {

std::string joined(const std::array<int64_t, 3>& dims, int count) {
  std::string text;
  for (int i = 0; i < count; ++i) {
    text += (i == 0 ? "" : "x") + std::to_string(dims[static_cast<size_t>(i)]);
  }
  return text;
}

std::string text_of(PostOp post) {
  switch (post) {
    case PostOp::none:
      return "";
    case PostOp::leaky_relu:
      return "+leaky_relu";
    case PostOp::tanh:
      return "+tanh";
    case PostOp::sum:
      return "+sum";
    case PostOp::sum_relu:
      return "+sum+relu";
    default:
      return "+" + std::string(activation_name(*activation_of(post)));
  }
}

}  // namespace

int64_t volume(const std::array<int64_t, 3>& sizes, int spatial) {
  return std::accumulate(sizes.begin(), sizes.begin() + spatial, int64_t{1}, std::multiplies<>());
}

size_t hash(const Problem& p) noexcept {
  size_t seed = 0;
  hash_combine(seed, static_cast<uint64_t>(p.kind) | static_cast<uint64_t>(p.post) << 8 |
                         uint64_t{p.bias} << 16 | uint64_t{p.src_zero_point} << 17 |
                         uint64_t{p.dst_zero_point} << 18 | uint64_t{p.f32_dst} << 19 |
                         static_cast<uint64_t>(p.spatial) << 20 |
                         static_cast<uint64_t>(p.isa) << 24 |
                         static_cast<uint64_t>(p.threads) << 32);
  hash_combine(seed, static_cast<uint64_t>(std::bit_cast<uint32_t>(p.alpha)) << 32 |
                         std::bit_cast<uint32_t>(p.beta));
  hash_combine(seed, static_cast<uint64_t>(p.implementation) << 32 |
                         static_cast<uint32_t>(p.sum_zero_point));
  hash_combine(seed, static_cast<uint64_t>(p.slices));
  for (const int64_t value : {p.N, p.IC, p.OC, p.groups}) {
    hash_combine(seed, static_cast<uint64_t>(value));
  }
  for (const auto* dims :
       {&p.src, &p.dst, &p.kernel, &p.stride, &p.dilation, &p.padding_l, &p.padding_r}) {
    for (const int64_t value : *dims) {
      hash_combine(seed, static_cast<uint64_t>(value));
    }
  }
  return seed;
}

std::string to_string(const Problem& p) {
  constexpr std::array<const char*, 3> kinds{"conv", "deconv", "matmul"};
  std::string text = kinds[static_cast<size_t>(p.kind)];
  text += text_of(p.post);
  text += p.f32_dst ? " u8s8f32" : " u8s8u8";
  text += " n" + std::to_string(p.N) + " ic" + std::to_string(p.IC) + " oc" + std::to_string(p.OC);
  if (p.spatial > 0) {
    text += " g" + std::to_string(p.groups) + " src" + joined(p.src, p.spatial) + " k" +
            joined(p.kernel, p.spatial) + " s" + joined(p.stride, p.spatial) + " p" +
            joined(p.padding_l, p.spatial) + " d" + joined(p.dilation, p.spatial);
  }
  if (p.src_zero_point) {
    text += " src_zp";
  }
  if (p.dst_zero_point) {
    text += " dst_zp";
  }
  text += " t" + std::to_string(p.threads);
  text += p.implementation == 0 ? "" : " #" + std::to_string(p.implementation);
  return p.slices == 1 ? text : text + " in " + std::to_string(p.slices) + " slices";
}

}  // namespace cpuaccel::dnnl_layer
