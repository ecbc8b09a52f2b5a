#include "quant/requantization.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace cpuaccel::quant {
namespace {

bool same_bias(const RequantizationParams& params, const float* bias) {
  return bias == nullptr ||
         std::memcmp(params.bias.data(), bias, params.bias.size() * sizeof(float)) == 0;
}

}  // namespace

std::shared_ptr<const RequantizationParams> RequantizationCache::get(const LayerWeight& layer,
                                                                     float src_scale,
                                                                     float dst_scale,
                                                                     int32_t zero_point) {
  const float* bias = layer.bias_data();
  auto last = last_.load(std::memory_order_acquire);
  if (last && last->src_scale == src_scale && last->dst_scale == dst_scale &&
      last->zero_point == zero_point && same_bias(*last, bias)) {
    return last;
  }
  auto params = std::make_shared<RequantizationParams>();
  params->src_scale = src_scale;
  params->dst_scale = dst_scale;
  params->zero_point = zero_point;
  for (const float scale : layer.scales) {
    const float acc_scale = src_scale * scale;
    params->acc_scales.push_back(acc_scale);
    params->dst_scales.push_back(acc_scale / dst_scale);
    params->largest_scale = std::max(params->largest_scale, std::abs(params->dst_scales.back()));
  }
  if (bias != nullptr) {
    params->bias.assign(bias, bias + layer.shape.OC);
  }
  if (bias != nullptr || zero_point != 0) {
    for (int64_t oc = 0; oc < layer.shape.OC; ++oc) {
      const float value = bias != nullptr ? bias[oc] / dst_scale : 0.0f;
      params->dst_bias.push_back(value + static_cast<float>(zero_point));
      params->largest_bias = std::max(params->largest_bias, std::abs(params->dst_bias.back()));
    }
  }
  last_.store(params, std::memory_order_release);
  return params;
}

}  // namespace cpuaccel::quant
