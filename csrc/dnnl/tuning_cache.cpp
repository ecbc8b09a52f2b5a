#include "dnnl/tuning_cache.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <utility>

#include "base/fork.h"
#include "base/isa.h"
#include "base/parallel.h"
#include "dnnl/limited_tuning.h"

namespace cpuaccel::dnnl_layer {
namespace {

std::atomic<bool> g_tuning_enabled{true};

struct TuningCache {
  std::mutex& mutex = fork_safe_mutex(ForkLevel::leaf, this);
  std::map<std::string, int> results;
  SimilarProblems similar;
};

TuningCache& tuning_cache() {
  static auto& instance = *std::make_unique<TuningCache>().release();
  return instance;
}

}  // namespace

std::optional<int> cached_tuning_result(const std::string& key) {
  auto& cache = tuning_cache();
  const std::scoped_lock lock(cache.mutex);
  const auto found = cache.results.find(key);
  return found != cache.results.end() ? std::optional(found->second) : std::nullopt;
}

int cache_tuning_result(const std::string& key, int result) {
  auto& cache = tuning_cache();
  const std::scoped_lock lock(cache.mutex);
  const auto [found, is_new] = cache.results.emplace(key, result);
  if (is_new) {
    cache.similar.add(key, result);
  }
  return found->second;
}

int tuning_result(const std::string& key, const std::function<int()>& tune,
                  const std::function<int(int)>& guess) {
  if (const auto found = cached_tuning_result(key)) {
    return *found;
  }
  if (const auto similar = similar_tuning_result(key)) {
    const int result = std::max(*similar, 0);
    return guess ? guess(result) : result;
  }
  return cache_tuning_result(key, tune());
}

std::optional<int> similar_tuning_result(const std::string& key) {
  if (!limited_tuning()) {
    return std::nullopt;
  }
  auto& cache = tuning_cache();
  const std::scoped_lock lock(cache.mutex);
  const auto found = cache.similar.nearest(key);
  if ((!found || !found->is_near) && take_tuning_run()) {
    return std::nullopt;
  }
  return found ? found->result : kNoTuningResult;
}

std::string tuning_conditions() {
  return "t" + std::to_string(parallel_threads()) + " i" +
         std::to_string(static_cast<int>(best_isa()));
}

std::map<std::string, int> tuning_results() {
  const std::scoped_lock lock(tuning_cache().mutex);
  return tuning_cache().results;
}

void set_tuning_results(std::map<std::string, int> results) {
  auto& cache = tuning_cache();
  const std::scoped_lock lock(cache.mutex);
  cache.results = std::move(results);
  cache.similar.clear();
  for (const auto& [key, result] : cache.results) {
    cache.similar.add(key, result);
  }
}

bool tuning_enabled() { return g_tuning_enabled.load(std::memory_order_relaxed); }
void set_tuning_enabled(bool on) { g_tuning_enabled.store(on, std::memory_order_relaxed); }

}  // namespace cpuaccel::dnnl_layer
