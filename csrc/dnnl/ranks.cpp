#include "dnnl/ranks.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <utility>

#include "base/fork.h"
#include "base/isa.h"
#include "base/parallel.h"
#include "dnnl/few_trials.h"

namespace cpuaccel::dnnl_layer {
namespace {

std::atomic<bool> g_timing{true};

struct Known {
  std::mutex& mutex = fork_safe_mutex(ForkLevel::leaf, this);
  std::map<std::string, int> ranks;
  SimilarProblems similar;
};

Known& known() {
  static auto& instance = *std::make_unique<Known>().release();
  return instance;
}

}  // namespace

std::optional<int> known_rank(const std::string& name) {
  auto& all = known();
  const std::scoped_lock lock(all.mutex);
  const auto found = all.ranks.find(name);
  return found != all.ranks.end() ? std::optional(found->second) : std::nullopt;
}

int know_rank(const std::string& name, int rank) {
  auto& all = known();
  const std::scoped_lock lock(all.mutex);
  const auto [found, is_new] = all.ranks.emplace(name, rank);
  if (is_new) {
    all.similar.add(name, rank);
  }
  return found->second;
}

int rank_of(const std::string& name, const std::function<int()>& timed,
            const std::function<int(int)>& guess) {
  if (const auto found = known_rank(name)) {
    return *found;
  }
  if (const auto alike = rank_alike(name)) {
    const int rank = std::max(*alike, 0);
    return guess ? guess(rank) : rank;
  }
  return know_rank(name, timed());
}

std::optional<int> rank_alike(const std::string& name) {
  if (!few_trials()) {
    return std::nullopt;
  }
  auto& all = known();
  const std::scoped_lock lock(all.mutex);
  const auto found = all.similar.nearest(name);
  if ((!found || !found->is_near) && take_trial()) {
    return std::nullopt;
  }
  return found ? found->result : kNoRank;
}

std::string conditions() {
  return "t" + std::to_string(parallel_threads()) + " i" +
         std::to_string(static_cast<int>(best_isa()));
}

std::map<std::string, int> known_ranks() {
  const std::scoped_lock lock(known().mutex);
  return known().ranks;
}

void set_known_ranks(std::map<std::string, int> ranks) {
  auto& all = known();
  const std::scoped_lock lock(all.mutex);
  all.ranks = std::move(ranks);
  all.similar.clear();
  for (const auto& [name, rank] : all.ranks) {
    all.similar.add(name, rank);
  }
}

bool timing() { return g_timing.load(std::memory_order_relaxed); }
void set_timing(bool on) { g_timing.store(on, std::memory_order_relaxed); }

}  // namespace cpuaccel::dnnl_layer
