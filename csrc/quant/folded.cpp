#include "quant/folded.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace cpuaccel::quant {
namespace {

bool same_bias(const Folded& folded, const float* bias) {
  return bias == nullptr ||
         std::memcmp(folded.bias.data(), bias, folded.bias.size() * sizeof(float)) == 0;
}

}  // namespace

std::shared_ptr<const Folded> FoldedCache::get(const LayerWeight& layer, float src_scale,
                                               float dst_scale) {
  const float* bias = layer.bias_data();
  auto last = last_.load(std::memory_order_acquire);
  if (last && last->src_scale == src_scale && last->dst_scale == dst_scale &&
      same_bias(*last, bias)) {
    return last;
  }
  auto folded = std::make_shared<Folded>();
  folded->src_scale = src_scale;
  folded->dst_scale = dst_scale;
  for (const float scale : layer.scales) {
    const float acc_scale = src_scale * scale;
    folded->acc_scales.push_back(acc_scale);
    folded->dst_scales.push_back(acc_scale / dst_scale);
    folded->largest_scale = std::max(folded->largest_scale, std::abs(folded->dst_scales.back()));
  }
  if (bias != nullptr) {
    folded->bias.assign(bias, bias + layer.shape.OC);
    for (const float value : folded->bias) {
      folded->dst_bias.push_back(value / dst_scale);
      folded->largest_bias = std::max(folded->largest_bias, std::abs(folded->dst_bias.back()));
    }
  }
  last_.store(folded, std::memory_order_release);
  return folded;
}

}  // namespace cpuaccel::quant
