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
                                               float dst_scale, int32_t zero_point) {
  const float* bias = layer.bias_data();
  auto last = last_.load(std::memory_order_acquire);
  if (last && last->src_scale == src_scale && last->dst_scale == dst_scale &&
      last->zero_point == zero_point && same_bias(*last, bias)) {
    return last;
  }
  auto folded = std::make_shared<Folded>();
  folded->src_scale = src_scale;
  folded->dst_scale = dst_scale;
  folded->zero_point = zero_point;
  for (const float scale : layer.scales) {
    const float acc_scale = src_scale * scale;
    folded->acc_scales.push_back(acc_scale);
    folded->dst_scales.push_back(acc_scale / dst_scale);
    folded->largest_scale = std::max(folded->largest_scale, std::abs(folded->dst_scales.back()));
  }
  if (bias != nullptr) {
    folded->bias.assign(bias, bias + layer.shape.OC);
  }
  if (bias != nullptr || zero_point != 0) {
    for (int64_t oc = 0; oc < layer.shape.OC; ++oc) {
      const float value = bias != nullptr ? bias[oc] / dst_scale : 0.0f;
      folded->dst_bias.push_back(value + static_cast<float>(zero_point));
      folded->largest_bias = std::max(folded->largest_bias, std::abs(folded->dst_bias.back()));
    }
  }
  last_.store(folded, std::memory_order_release);
  return folded;
}

}  // namespace cpuaccel::quant
