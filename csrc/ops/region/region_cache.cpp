#include "ops/region/region_cache.h"

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <stdexcept>
#include <unordered_set>
#include <utility>

#include "base/fork.h"
#include "base/isa.h"
#include "base/log.h"
#include "dnnl/limited_tuning.h"
#include "ops/matmul/fastmath.h"
#include "ops/region/prepare.h"

namespace cpuaccel::ops {
namespace {

plan::TensorDesc describe(const at::Tensor& tensor) {
  return {tensor.sizes().vec(), tensor.strides().vec()};
}

// Numbers that Shape holds for a tensor of four dimensions.
constexpr size_t kUsualNumbers = 9;

std::vector<plan::TensorDesc> descs_of(const std::vector<int64_t>& inputs) {
  std::vector<plan::TensorDesc> descs;
  for (auto at = inputs.begin(); at != inputs.end();) {
    const auto rank = *at++;
    descs.push_back({{at, at + rank}, {at + rank, at + 2 * rank}});
    at += 2 * rank;
  }
  return descs;
}

std::string_view first_line(std::string_view text) { return text.substr(0, text.find('\n')); }

// For each constant of the call: whether the plan depends on its content at compile time.
std::vector<bool> depends_on_constants(const plan::Region& region, const plan::Plan& made) {
  std::unordered_set<plan::Id> prepared;
  for (const auto& preparation : region.preparations) {
    prepared.insert(preparation.inputs.begin(), preparation.inputs.end());
  }
  auto result = made.depends_on_constant();
  result.resize(region.constants.size());
  for (size_t i = 0; i < result.size(); ++i) {
    result[i] = result[i] || prepared.contains(region.constants[i]);
  }
  return result;
}

void check_counts(const plan::Region& region, size_t inputs, size_t constants) {
  if (inputs != region.inputs.size() || constants != region.constants.size()) {
    throw std::invalid_argument("graph: expected " + std::to_string(region.inputs.size()) +
                                " inputs and " + std::to_string(region.constants.size()) +
                                " constants, got " + std::to_string(inputs) + " and " +
                                std::to_string(constants));
  }
}

bool shares_memory(const at::Tensor& tensor, const std::vector<at::Tensor>& others) {
  return std::any_of(others.begin(), others.end(), [&](const at::Tensor& other) {
    return tensor.storage().is_alias_of(other.storage());
  });
}

}  // namespace

std::vector<void*> CachedPlan::constant_data(const std::vector<at::Tensor>& given) const {
  std::vector<void*> data;
  data.reserve(prepared_.size());
  const auto& read = plan_->reads_constant();
  for (size_t i = 0; i < prepared_.size(); ++i) {
    data.push_back(!read[i]                 ? nullptr
                   : i < given.size()       ? const_cast<void*>(given[i].const_data_ptr())
                   : prepared_[i].defined() ? prepared_[i].mutable_data_ptr()
                                            : nullptr);
  }
  return data;
}

RegionCache& RegionCache::instance() {
  static auto& cache = *std::unique_ptr<RegionCache>(new RegionCache).release();
  return cache;
}

RegionCache::RegionCache() : mutex_(fork_safe_mutex(ForkLevel::params, this)) {
  reset_after_fork([this] {
    misses_ = stale_ = evictions_ = 0;
    hits_.store(0);
  });
}

std::shared_ptr<const CachedPlan> RegionCache::get(std::string_view text,
                                                   const std::vector<at::Tensor>& inputs,
                                                   const std::vector<at::Tensor>& constants,
                                                   size_t written) {
  Shape shape{{}, written, at::get_num_threads(), fastmath_on() && has_bf16_arithmetic()};
  shape.inputs.reserve(inputs.size() * kUsualNumbers);
  for (const auto& input : inputs) {
    shape.inputs.push_back(input.dim());
    shape.inputs.insert(shape.inputs.end(), input.sizes().begin(), input.sizes().end());
    shape.inputs.insert(shape.inputs.end(), input.strides().begin(), input.strides().end());
  }
  std::shared_ptr<Weights> weights;
  std::shared_ptr<const CachedPlan> ready;
  {
    const std::scoped_lock lock(mutex_);
    const auto& region = region_of(text);
    check_counts(region.parsed, inputs.size(), constants.size());
    weights = find_weights(region, constants);
    ready = find(weights.get(), shape);
  }
  // Weights are read without the lock, so that other threads can run.
  if (weights && !weights->watched.unchanged(constants)) {
    const std::scoped_lock lock(mutex_);
    ++stale_;
    drop(weights);
    ready = nullptr;
  }
  if (ready) {
    hits_.fetch_add(1, std::memory_order_relaxed);
    return ready;
  }
  return make(text, std::move(shape), constants);
}

std::shared_ptr<const CachedPlan> RegionCache::make(std::string_view text, Shape shape,
                                                    const std::vector<at::Tensor>& constants) {
  const DeferredLogs deferred;  // destroyed after the lock
  const std::scoped_lock lock(mutex_);
  auto& region = region_of(text);
  auto weights = find_weights(region, constants);
  if (auto found = find(weights.get(), shape)) {
    hits_.fetch_add(1, std::memory_order_relaxed);  // another thread compiled it meanwhile
    return found;
  }
  const auto is_dense = [](const at::Tensor& tensor) {
    return tensor.is_non_overlapping_and_dense();
  };
  if (!weights && !std::all_of(constants.begin(), constants.end(), is_dense)) {
    throw std::runtime_error("weights with gaps or overlapping elements");
  }
  ++misses_;
  // If the same layers were timed for other sizes, a call with new sizes does not wait for timing.
  const dnnl_layer::LimitedTuning few(weights != nullptr || is_known(constants));
  if (!weights) {
    drop_outdated(region, constants);
    weights = region.weights.emplace_front(std::make_shared<Weights>(constants));
  }
  std::shared_ptr<const CachedPlan> ready;
  std::string reason;
  try {
    ready = compile(region, *weights, shape, constants);
  } catch (const dnnl::error& error) {
    if (error.status == dnnl_out_of_memory) {
      throw;  // the next call may have memory
    }
    reason = error.what();
  } catch (const std::runtime_error& error) {
    reason = error.what();
  }
  const auto* const made_on = weights.get();
  order_.push_front({std::move(weights), std::move(shape), ready, reason});
  shrink(made_on);
  shrink_to(capacity_);
  drop_unused_regions();
  if (!ready) {
    throw std::runtime_error(reason);
  }
  return ready;
}

RegionCache::CachedRegion& RegionCache::region_of(std::string_view text) {
  std::string key(first_line(text));
  auto found = regions_.find(key);
  if (found == regions_.end()) {
    auto region = std::make_unique<CachedRegion>();
    region->parsed = plan::parse_region(text);  // if this throws, nothing is cached
    found = regions_.emplace(std::move(key), std::move(region)).first;
  }
  return *found->second;
}

std::shared_ptr<RegionCache::Weights> RegionCache::find_weights(
    const CachedRegion& region, const std::vector<at::Tensor>& constants) {
  const auto found =
      std::find_if(region.weights.begin(), region.weights.end(),
                   [&](const auto& weights) { return weights->watched.are(constants); });
  return found == region.weights.end() ? nullptr : *found;
}

std::shared_ptr<const CachedPlan> RegionCache::find(const Weights* weights, const Shape& shape) {
  const auto found = std::find_if(order_.begin(), order_.end(), [&](const Entry& entry) {
    return entry.weights.get() == weights && entry.shape == shape;
  });
  if (found == order_.end()) {
    return nullptr;
  }
  order_.splice(order_.begin(), order_, found);
  if (!found->plan) {
    throw std::runtime_error(found->reason);
  }
  return found->plan;
}

std::shared_ptr<const CachedPlan> RegionCache::compile(
    const CachedRegion& region, Weights& weights, const Shape& shape,
    const std::vector<at::Tensor>& constants) const {
  // Cached tensors outlive the modes of this call.
  const c10::InferenceMode no_inference(false);
  const at::NoGradGuard no_grad;
  auto ready = std::make_shared<CachedPlan>();
  for (const auto& output : region.parsed.outputs) {
    ready->output_types_.push_back(scalar_type(region.parsed.value(output.id).type));
  }
  ready->packed_ = weights.packed;
  ready->prepared_ = prepare_constants(region.parsed, constants);
  std::vector<plan::TensorDesc> descs;
  std::vector<const void*> data;
  for (const auto& constant : ready->prepared_) {
    descs.push_back(describe(constant));
    data.push_back(constant.const_data_ptr());
  }
  ready->plan_ = std::make_unique<plan::Plan>(region.parsed, descs_of(shape.inputs), descs, data,
                                              *ready->packed_, shape.fast_math, shape.written);
  const auto depends = depends_on_constants(region.parsed, *ready->plan_);
  for (size_t i = 0; i < depends.size(); ++i) {
    if (depends[i] && !private_.contains(constants[i].storage().unsafeGetStorageImpl())) {
      weights.watched.look_at(i);
    }
  }
  const auto& read = ready->plan_->reads_constant();
  for (size_t i = 0; i < read.size(); ++i) {
    auto& prepared = ready->prepared_[i];
    // The cache must not keep the user's weights alive.
    if (i < constants.size() || !read[i]) {
      prepared = at::Tensor();
    } else if (shares_memory(prepared, constants)) {
      prepared = prepared.clone();
    }
  }
  return ready;
}

bool RegionCache::is_known(const std::vector<at::Tensor>& constants) const {
  return !constants.empty() && std::any_of(regions_.begin(), regions_.end(), [&](const auto& each) {
    return find_weights(*each.second, constants) != nullptr;
  });
}

void RegionCache::drop(const std::shared_ptr<Weights>& weights) {
  order_.remove_if([&](const Entry& entry) { return entry.weights == weights; });
  for (auto& [text, region] : regions_) {
    region->weights.remove(weights);
  }
}

void RegionCache::drop_outdated(CachedRegion& region, const std::vector<at::Tensor>& constants) {
  const auto same = region.weights;
  for (const auto& weights : same) {
    if (weights->watched.were(constants)) {
      ++stale_;
      drop(weights);
    }
  }
  for (auto& [text, other] : regions_) {
    const auto all = other->weights;
    for (const auto& weights : all) {
      if (weights->watched.expired()) {
        drop(weights);
      }
    }
  }
}

void RegionCache::shrink_to(size_t capacity) {
  while (order_.size() > capacity) {
    const auto weights = order_.back().weights;
    order_.pop_back();
    ++evictions_;
    if (std::none_of(order_.begin(), order_.end(),
                     [&](const Entry& entry) { return entry.weights == weights; })) {
      drop(weights);
    }
  }
}

void RegionCache::shrink(const Weights* weights) {
  size_t plans = 0;
  for (auto at = order_.begin(); at != order_.end();) {
    if (at->weights.get() == weights && ++plans > kMostShapes) {
      at = order_.erase(at);
      ++evictions_;
    } else {
      ++at;
    }
  }
}

void RegionCache::drop_unused_regions() {
  std::erase_if(regions_, [](const auto& each) { return each.second->weights.empty(); });
}

void RegionCache::keep_private(at::TensorList tensors) {
  const std::scoped_lock lock(mutex_);
  std::erase_if(private_, [](const auto& each) { return each.second.expired(); });
  for (const auto& tensor : tensors) {
    const auto& storage = tensor.storage();
    private_.emplace(storage.unsafeGetStorageImpl(), storage.getWeakStorageImpl());
  }
}

void RegionCache::set_capacity(int64_t capacity) {
  const std::scoped_lock lock(mutex_);
  capacity_ = static_cast<size_t>(capacity);
  shrink_to(capacity_);
  drop_unused_regions();
}

void RegionCache::clear() {
  const std::scoped_lock lock(mutex_);
  order_.clear();
  regions_.clear();
}

CacheStats RegionCache::stats() {
  const std::scoped_lock lock(mutex_);
  int64_t bytes = 0;
  for (const auto& [text, region] : regions_) {
    for (const auto& weights : region->weights) {
      bytes += static_cast<int64_t>(weights->packed->bytes());
    }
  }
  return {static_cast<int64_t>(capacity_),
          static_cast<int64_t>(order_.size()),
          bytes,
          hits_.load(std::memory_order_relaxed),
          misses_,
          stale_,
          evictions_};
}

std::vector<std::pair<std::string, std::shared_ptr<const CachedPlan>>> RegionCache::timed() {
  const std::scoped_lock lock(mutex_);
  std::vector<std::pair<std::string, std::shared_ptr<const CachedPlan>>> found;
  for (const auto& [text, region] : regions_) {
    for (const auto& entry : order_) {
      const bool is_its = std::count(region->weights.begin(), region->weights.end(), entry.weights);
      if (is_its && entry.plan && !entry.plan->times().runs().empty()) {
        found.emplace_back(text, entry.plan);
      }
    }
  }
  return found;
}

void RegionCache::clear_times() {
  const std::scoped_lock lock(mutex_);
  for (const auto& entry : order_) {
    if (entry.plan) {
      entry.plan->times().clear();
    }
  }
}

void RegionCache::reset_stats() {
  const std::scoped_lock lock(mutex_);
  misses_ = stale_ = evictions_ = 0;
  hits_.store(0, std::memory_order_relaxed);
}

}  // namespace cpuaccel::ops
