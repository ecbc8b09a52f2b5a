// Cache of plans: the regions of compiled models, compiled for given weights and sizes.
#pragma once

#include <ATen/core/Tensor.h>

#include <atomic>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "ops/cache_stats.h"
#include "ops/region/step_times.h"
#include "ops/region/watch.h"
#include "plan/plan.h"
#include "plan/region.h"

namespace cpuaccel::ops {

// A plan, with the constants that its runs read.
class CachedPlan {
 public:
  const plan::Plan& compiled() const { return *plan_; }
  // In the region's order.
  const std::vector<at::ScalarType>& output_types() const { return output_types_; }
  // The data of the constants that runs read, and null for others; `given` are the constants of the
  // call.
  std::vector<void*> constant_data(const std::vector<at::Tensor>& given) const;
  StepTimes& times() const { return times_; }

 private:
  friend class RegionCache;
  std::vector<at::ScalarType> output_types_;
  std::shared_ptr<plan::PackedWeights> packed_;
  std::vector<at::Tensor> prepared_;  // undefined if the call passes it, or no run reads it
  std::unique_ptr<plan::Plan> plan_;
  mutable StepTimes times_;
};

// The capacity is a number of plans: each shape of each region counts, and one region has at most
// kMostShapes plans on the same weights. Least recently used plans go first. Each call looks for
// changes of the region's weights (WatchedTensors), and drops the plans of changed weights.
class RegionCache {
 public:
  static RegionCache& instance();

  // `text` is a region (plan/region.h) whose first line identifies it. `inputs` are dense; runs
  // write to the first `written` of them (Plan). Threads that miss wait for each other. Throws the
  // errors of parsing and compiling, and std::runtime_error if `constants` are not dense. A region
  // that did not compile is not tried again: the next call throws std::runtime_error with the same
  // reason.
  std::shared_ptr<const CachedPlan> get(std::string_view text,
                                        const std::vector<at::Tensor>& inputs,
                                        const std::vector<at::Tensor>& constants,
                                        size_t written = 0);

  // Declares that nobody will ever write to these tensors: looks skip their bytes.
  void keep_private(at::TensorList tensors);

  // capacity >= 0; plans above it are dropped at once. 0 caches nothing.
  void set_capacity(int64_t capacity);
  void clear();
  CacheStats stats();
  void reset_stats();

  // Plans that ran while steps were timed, each with the first line of its region.
  std::vector<std::pair<std::string, std::shared_ptr<const CachedPlan>>> timed();
  void clear_times();

 private:
  RegionCache();

  struct Shape {
    std::vector<int64_t>
        inputs;      // rank, sizes and strides of each, in one vector to save cache misses
    size_t written;  // the number of inputs written to
    int threads;
    bool fast_math;
    bool operator==(const Shape&) const = default;
  };
  // The most plans of one region on the same weights, so that a thousand sizes do not fill the
  // memory with code.
  static constexpr size_t kMostShapes = 128;

  // The weights that plans were compiled on.
  struct Weights {
    explicit Weights(at::TensorList tensors) : watched(tensors, false) {}

    WatchedTensors watched;
    std::shared_ptr<plan::PackedWeights> packed = std::make_shared<plan::PackedWeights>();
  };
  struct CachedRegion {
    plan::Region parsed;
    std::list<std::shared_ptr<Weights>> weights;
  };
  struct Entry {
    std::shared_ptr<Weights> weights;
    Shape shape;
    std::shared_ptr<const CachedPlan> plan;  // null if it does not compile
    std::string reason;                      // why it does not compile
  };

  // Compiles the plan that `get` did not find.
  std::shared_ptr<const CachedPlan> make(std::string_view text, Shape shape,
                                         const std::vector<at::Tensor>& constants);

  // All of these are called under the lock.
  CachedRegion& region_of(std::string_view text);
  static std::shared_ptr<Weights> find_weights(const CachedRegion& region,
                                               const std::vector<at::Tensor>& constants);
  // Null if there is none. Throws the reason if the region did not compile.
  std::shared_ptr<const CachedPlan> find(const Weights* weights, const Shape& shape);
  std::shared_ptr<const CachedPlan> compile(const CachedRegion& region, Weights& weights,
                                            const Shape& shape,
                                            const std::vector<at::Tensor>& constants) const;
  // Whether any region was compiled on these weights.
  bool is_known(const std::vector<at::Tensor>& constants) const;
  void drop(const std::shared_ptr<Weights>& weights);
  // Drops weights whose tensors are gone, and those that were `constants` before a change.
  void drop_outdated(CachedRegion& region, const std::vector<at::Tensor>& constants);
  void shrink_to(size_t capacity);
  // Keeps at most kMostShapes plans of these weights.
  void shrink(const Weights* weights);
  // Drops regions without plans.
  void drop_unused_regions();

  std::mutex& mutex_;
  std::unordered_map<std::string, std::unique_ptr<CachedRegion>> regions_;
  std::list<Entry> order_;  // front: most recently used
  // Storages that nobody writes to. While a weak pointer is held, no other storage has its address.
  std::unordered_map<const c10::StorageImpl*, c10::weak_intrusive_ptr<c10::StorageImpl>> private_;
  size_t capacity_ = 1024;
  int64_t misses_ = 0, stale_ = 0, evictions_ = 0;
  std::atomic<int64_t> hits_{0};
};

}  // namespace cpuaccel::ops
