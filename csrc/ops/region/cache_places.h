// CachePlaces: where the attentions of a decoder's call find their caches.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ops/cached_attention.h"

namespace cpuaccel::ops {

// The caches of all attentions of one call, in the order of their numbers. Between enter() and
// leave(), steps of plans that the calling thread runs append to them and attend to them.
class CachePlaces final {
 public:
  // For calls of `tokens` tokens.
  CachePlaces(int64_t tokens, std::vector<LayerCache> caches);
  ~CachePlaces();
  CachePlaces(const CachePlaces&) = delete;
  CachePlaces& operator=(const CachePlaces&) = delete;

  const LayerCache& cache(size_t i) const { return caches_[i]; }

  // One mask for each attention.
  void enter(std::vector<CallMask> masks);
  // Says which attentions steps have computed.
  const std::vector<bool>& leave();
  // Lets the next call append to attention i's cache behind these positions.
  void continue_at(size_t i, int64_t begin, int64_t end);

  // Computes an attention if the calling thread has entered places, and the cache takes the heads.
  // G of heads that append nothing is the cache's.
  static bool attend(size_t site, CallHeads heads);

 private:
  void forget();

  int64_t tokens_;
  std::vector<LayerCache> caches_;
  std::vector<CallMask> masks_;
  std::vector<bool> done_;
  CachePlaces* outer_ = nullptr;
  bool entered_ = false;
};

}  // namespace cpuaccel::ops
