#include "ops/region/cache_places.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <utility>

namespace cpuaccel::ops {
namespace {

thread_local CachePlaces* t_places = nullptr;

}  // namespace

CachePlaces::CachePlaces(int64_t tokens, std::vector<LayerCache> caches)
    : tokens_(tokens), caches_(std::move(caches)), done_(caches_.size()) {}

CachePlaces::~CachePlaces() { forget(); }

void CachePlaces::enter(std::vector<CallMask> masks) {
  TORCH_CHECK(!entered_, "CachePlaces: entered twice");
  TORCH_CHECK(masks.size() == caches_.size(), "CachePlaces: expected one mask for each attention");
  masks_ = std::move(masks);
  std::fill(done_.begin(), done_.end(), false);
  outer_ = std::exchange(t_places, this);
  entered_ = true;
}

const std::vector<bool>& CachePlaces::leave() {
  forget();
  return done_;
}

void CachePlaces::continue_at(size_t i, int64_t begin, int64_t end) {
  caches_[i].begin = begin;
  caches_[i].used = end;
}

void CachePlaces::forget() {
  if (std::exchange(entered_, false) && t_places == this) {
    t_places = outer_;
  }
}

bool CachePlaces::attend(size_t site, CallHeads heads) {
  if (t_places == nullptr || site >= t_places->caches_.size()) {
    return false;
  }
  const auto& cache = t_places->caches_[site];
  const auto& mask = t_places->masks_[site];
  if (!heads.appends && cache.keys.dim() == 4) {
    heads.G = cache.keys.size(1);
  }
  if (heads.T != t_places->tokens_ || mismatch(heads, cache, mask) != nullptr) {
    return false;
  }
  attend_and_keep(heads, cache, mask);
  t_places->done_[site] = true;
  return true;
}

}  // namespace cpuaccel::ops
