#include "ops/region/cache_places.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/narrow.h>

#include <algorithm>
#include <utility>

namespace cpuaccel::ops {
namespace {

thread_local CachePlaces* t_places = nullptr;

}  // namespace

CachePlaces::CachePlaces(int64_t tokens, Tensors keys, Tensors values, const Tensors& key_scales,
                         const Tensors& value_scales, const Numbers& scales_of,
                         const Numbers& begins, const Numbers& ends, Numbers windows,
                         const std::vector<double>& factors)
    : tokens_(tokens), windows_(std::move(windows)), done_(keys.size()) {
  const size_t count = keys.size();
  TORCH_CHECK(values.size() == count && scales_of.size() == count && begins.size() == count &&
                  ends.size() == count && windows_.size() == count && factors.size() == count,
              "CachePlaces: expected one of each for each of the ", count, " attentions");
  const auto numbered = [](const Tensors& tensors, int64_t number) {
    return number < 0 ? at::Tensor() : tensors.at(static_cast<size_t>(number));
  };
  caches_.reserve(count);
  for (size_t i = 0; i < count; ++i) {
    caches_.push_back({std::move(keys[i]), std::move(values[i]), numbered(key_scales, scales_of[i]),
                       numbered(value_scales, scales_of[i]), at::Tensor(), begins[i], ends[i],
                       static_cast<float>(factors[i]), false});
  }
}

CachePlaces::~CachePlaces() { forget(); }

void CachePlaces::enter(const Tensors& masks, const Numbers& mask_of) {
  TORCH_CHECK(!entered_, "CachePlaces: entered twice");
  TORCH_CHECK(mask_of.empty() || mask_of.size() == caches_.size(),
              "CachePlaces: expected one mask for each attention");
  for (size_t i = 0; i < caches_.size(); ++i) {
    const bool masked = !mask_of.empty() && mask_of[i] >= 0;
    caches_[i].mask = masked ? masks.at(static_cast<size_t>(mask_of[i])) : at::Tensor();
  }
  std::fill(done_.begin(), done_.end(), false);
  outer_ = std::exchange(t_places, this);
  entered_ = true;
}

std::tuple<CachePlaces::Numbers, CachePlaces::Numbers, CachePlaces::Tensors> CachePlaces::leave() {
  forget();
  Numbers done, begins;
  Tensors views;
  // Nobody computes gradients of these views.
  const at::AutoDispatchBelowADInplaceOrView guard;
  for (size_t i = 0; i < done_.size(); ++i) {
    if (!done_[i] || windows_[i] < 0) {
      continue;
    }
    auto& cache = caches_[i];
    cache.used += tokens_;
    if (windows_[i] > 0) {
      cache.begin = std::max(cache.begin, cache.used - windows_[i] + 1);
    }
    done.push_back(static_cast<int64_t>(i));
    begins.push_back(cache.begin);
    for (const auto* buffer :
         {&cache.keys, &cache.values, &cache.key_scales, &cache.value_scales}) {
      if (buffer->defined()) {
        views.push_back(buffer->narrow(2, cache.begin, cache.used - cache.begin));
      }
    }
  }
  return {std::move(done), std::move(begins), std::move(views)};
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
  if (!heads.appends && cache.keys.dim() == 4) {
    heads.G = cache.keys.size(1);
  }
  if (heads.T != t_places->tokens_ || mismatch(heads, cache) != nullptr) {
    return false;
  }
  attend_and_keep(heads, cache);
  t_places->done_[site] = true;
  return true;
}

TORCH_LIBRARY_FRAGMENT(cpuaccel, library) {
  using Places = CachePlaces;
  library.class_<Places>("CachePlaces")
      .def(torch::init<int64_t, Places::Tensors, Places::Tensors, const Places::Tensors&,
                       const Places::Tensors&, const Places::Numbers&, const Places::Numbers&,
                       const Places::Numbers&, Places::Numbers, const std::vector<double>&>())
      .def("enter", &Places::enter)
      .def("leave", &Places::leave);
}

}  // namespace cpuaccel::ops
