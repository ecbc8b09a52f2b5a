#include "graph/layer_trial.h"

#include <memory>
#include <utility>
#include <vector>

#include "base/race.h"
#include "dnnl/ranks.h"
#include "graph/primitive_step.h"
#include "graph/trial_data.h"

namespace cpuaccel::graph {
namespace {

constexpr int kImplementations = 3;
constexpr double kSeconds = 0.05;  // of all rounds, about

int rank_of(LayerWay way) { return 2 * way.implementation + (way.function_behind ? 1 : 0); }
LayerWay way_of(int rank) { return {rank / 2, rank % 2 != 0}; }

// What a trial found out of one way.
struct Trial {
  LayerWay way;
  std::string implementation;
  double seconds = 0;
  bool is_same = true;  // its results are those of the first one, but for rounding
};

struct Candidate {
  Trial trial;
  dnnl::primitive_desc_base desc;
  std::unique_ptr<PrimitiveStep> step = nullptr;
};

// oneDNN's own choice first.
std::vector<Candidate> candidates_of(std::optional<kernels::FloatFunction> function,
                                     const DescOfWay& desc_of) {
  std::vector<Candidate> found;
  for (const bool behind : {false, true}) {
    for (int i = 0; i < kImplementations && (!behind || function); ++i) {
      try {
        auto desc = desc_of({i, behind});
        if (is_slow(desc)) {
          break;  // what comes behind a reference is none
        }
        std::string name = desc.impl_info_str();
        found.push_back({{{i, behind}, std::move(name)}, std::move(desc)});
      } catch (const dnnl::error&) {
        break;  // there are no more
      }
    }
  }
  return found;
}

std::vector<Trial> try_ways(std::optional<kernels::FloatFunction> function,
                            const DescOfWay& desc_of) {
  auto candidates = candidates_of(function, desc_of);
  if (candidates.size() < 2) {
    return {};
  }
  TrialData data(candidates.front().desc);
  std::vector<float> expected;
  for (auto& candidate : candidates) {
    const bool behind = candidate.trial.way.function_behind;
    candidate.step = data.step(std::move(candidate.desc), behind ? function : std::nullopt);
    data.run(*candidate.step);
    if (expected.empty()) {
      expected = data.results();
    }
    candidate.trial.is_same = data.are_near(expected);
  }
  race(candidates, &Candidate::trial, kSeconds,
       [&](const Candidate& candidate) { return data.run(*candidate.step); });
  std::vector<Trial> trials;
  for (auto& candidate : candidates) {
    trials.push_back(std::move(candidate.trial));
  }
  return trials;
}

}  // namespace

bool is_slow(const dnnl::primitive_desc_base& desc) {
  const std::string name = desc.impl_info_str();
  return name.starts_with("ref") || name.starts_with("gemm:ref");
}

LayerWay fastest_way(const std::string& problem, std::optional<kernels::FloatFunction> function,
                     const DescOfWay& desc_of) {
  if (!dnnl_layer::timing()) {
    return {};
  }
  auto way = way_of(dnnl_layer::rank_of(problem, [&] {
    const auto trials = try_ways(function, desc_of);
    if (trials.empty()) {
      return 0;
    }
    const auto& best = winner_of(trials);
    log_race(problem, trials, best, [](const Trial& trial) {
      return trial.implementation + (trial.way.function_behind ? " and ours behind" : "");
    });
    return rank_of(best.way);
  }));
  way.function_behind = way.function_behind && function;  // whatever a file says
  return way;
}

}  // namespace cpuaccel::graph
