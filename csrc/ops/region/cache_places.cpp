#include "ops/region/cache_places.h"

#include <utility>

namespace cpuaccel::ops {
namespace {

thread_local CachePlaces* t_places = nullptr;

}  // namespace

CachePlaces::CachePlaces(int64_t tokens, Tensors keys, Tensors values, const Tensors& key_scales,
                         const Tensors& value_scales, const Numbers& scales_of,
                         const Numbers& begins, const Numbers& ends, const Tensors& masks,
                         const Numbers& mask_of, const std::vector<double>& factors)
    : tokens_(tokens), done_(keys.size()) {
  const size_t count = keys.size();
  TORCH_CHECK(values.size() == count && scales_of.size() == count && begins.size() == count &&
                  ends.size() == count && mask_of.size() == count && factors.size() == count,
              "CachePlaces: expected one of each for each of the ", count, " attentions");
  const auto numbered = [](const Tensors& tensors, int64_t number) {
    return number < 0 ? at::Tensor() : tensors.at(static_cast<size_t>(number));
  };
  caches_.reserve(count);
  for (size_t i = 0; i < count; ++i) {
    caches_.push_back({std::move(keys[i]), std::move(values[i]), numbered(key_scales, scales_of[i]),
                       numbered(value_scales, scales_of[i]), numbered(masks, mask_of[i]), begins[i],
                       ends[i], static_cast<float>(factors[i]), false});
  }
}

CachePlaces::~CachePlaces() { forget(); }

void CachePlaces::enter() {
  TORCH_CHECK(!entered_, "CachePlaces: entered twice");
  outer_ = std::exchange(t_places, this);
  entered_ = true;
}

CachePlaces::Numbers CachePlaces::leave() {
  forget();
  Numbers done;
  for (size_t i = 0; i < done_.size(); ++i) {
    if (done_[i]) {
      done.push_back(static_cast<int64_t>(i));
    }
  }
  return done;
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
                       const Places::Numbers&, const Places::Tensors&, const Places::Numbers&,
                       const std::vector<double>&>())
      .def("enter", &Places::enter)
      .def("leave", &Places::leave);
}

}  // namespace cpuaccel::ops
