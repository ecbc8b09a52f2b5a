#include "ops/region/cache_places.h"

#include <utility>

namespace cpuaccel::ops {
namespace {

thread_local CachePlaces* t_places = nullptr;

}  // namespace

CachePlaces::CachePlaces(int64_t tokens, Tensors keys, Tensors values, Tensors key_scales,
                         Tensors value_scales, Numbers begins, Numbers ends, const Tensors& masks,
                         const Numbers& mask_of, const std::vector<double>& scales)
    : tokens_(tokens), done_(keys.size()) {
  const size_t count = keys.size();
  TORCH_CHECK(values.size() == count && begins.size() == count && ends.size() == count &&
                  mask_of.size() == count && scales.size() == count &&
                  key_scales.size() == value_scales.size() &&
                  (key_scales.empty() || key_scales.size() == count),
              "CachePlaces: expected one of each for each of the ", count, " attentions");
  caches_.reserve(count);
  for (size_t i = 0; i < count; ++i) {
    const bool narrow = !key_scales.empty(), masked = mask_of[i] >= 0;
    caches_.push_back({std::move(keys[i]), std::move(values[i]),
                       narrow ? std::move(key_scales[i]) : at::Tensor(),
                       narrow ? std::move(value_scales[i]) : at::Tensor(),
                       masked ? masks.at(static_cast<size_t>(mask_of[i])) : at::Tensor(), begins[i],
                       ends[i], static_cast<float>(scales[i]), false});
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

bool CachePlaces::attend(size_t site, const AppendedHeads& heads) {
  if (t_places == nullptr || site >= t_places->caches_.size()) {
    return false;
  }
  const auto& cache = t_places->caches_[site];
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
      .def(torch::init<int64_t, Places::Tensors, Places::Tensors, Places::Tensors, Places::Tensors,
                       Places::Numbers, Places::Numbers, const Places::Tensors&,
                       const Places::Numbers&, const std::vector<double>&>())
      .def("enter", &Places::enter)
      .def("leave", &Places::leave);
}

}  // namespace cpuaccel::ops
