// RequantizationParams: a layer's scales and biases combined with the scales of its input and
// output. RequantizationCache keeps them between calls, so that a static model computes them once.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "base/api.h"
#include "quant/kernel.h"

namespace cpuaccel::quant {

//   acc_scales[oc] = src_scale * weight_scale[oc]             (real value of one accumulator step)
//   dst_scales[oc] = acc_scales[oc] / dst_scale               (the same in quanta of the result)
//   dst_bias[oc]   = bias[oc] / dst_scale + zero_point        (empty without bias and zero_point)
struct RequantizationParams {
  float src_scale = 0.0f, dst_scale = 0.0f;
  int32_t zero_point = 0;
  std::vector<float> acc_scales, dst_scales, dst_bias;
  float largest_scale = 0.0f, largest_bias = 0.0f;  // maxima of |dst_scales| and |dst_bias|
  std::vector<float> bias;  // that dst_bias was computed from: the user may mutate it
};

class CPUACCEL_API RequantizationCache {
 public:
  std::shared_ptr<const RequantizationParams> get(const LayerWeight& layer, float src_scale,
                                                  float dst_scale, int32_t zero_point = 0);

 private:
  std::atomic<std::shared_ptr<const RequantizationParams>> last_;
};

}  // namespace cpuaccel::quant
