// CachePlaces: where the attentions of a decoder's call find their caches.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/custom_class.h>

#include <cstddef>
#include <cstdint>
#include <tuple>
#include <vector>

#include "ops/cached_attention.h"

namespace cpuaccel::ops {

// The caches of all attentions of one call, in the order of their numbers. Between enter() and
// leave(), steps of plans that the calling thread runs append to them and attend to them.
class CachePlaces final : public torch::CustomClassHolder {
 public:
  using Tensors = std::vector<at::Tensor>;
  using Numbers = std::vector<int64_t>;

  // For calls of `tokens` tokens. One of each for each attention. `scales_of`: the number of its
  // cache's scales in `key_scales` and `value_scales`, -1: it is not int8. `windows`: the positions
  // that it sees, 0 for all, -1 if calls append nothing to its cache.
  CachePlaces(int64_t tokens, Tensors keys, Tensors values, const Tensors& key_scales,
              const Tensors& value_scales, const Numbers& scales_of, const Numbers& begins,
              const Numbers& ends, Numbers windows, const std::vector<double>& factors);
  ~CachePlaces() override;
  CachePlaces(const CachePlaces&) = delete;
  CachePlaces& operator=(const CachePlaces&) = delete;

  // `mask_of`: the number of the mask of each attention in `masks`, or -1; no numbers if all have
  // none.
  void enter(const Tensors& masks, const Numbers& mask_of);
  // Returns the numbers of the attentions that steps have computed and whose caches have grown, and
  // for each of them the first position that its cache now holds, and views of these positions:
  // keys, values and the scales. The next call of enter() begins behind these positions.
  std::tuple<Numbers, Numbers, Tensors> leave();

  // Computes an attention if the calling thread has entered places, and the cache takes the heads.
  // G of heads that append nothing is the cache's.
  static bool attend(size_t site, CallHeads heads);

 private:
  void forget();

  int64_t tokens_;
  std::vector<LayerCache> caches_;
  Numbers windows_;
  std::vector<bool> done_;
  CachePlaces* outer_ = nullptr;
  bool entered_ = false;
};

}  // namespace cpuaccel::ops
