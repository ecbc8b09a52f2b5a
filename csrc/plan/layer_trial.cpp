#include "plan/layer_trial.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "base/race.h"
#include "dnnl/ranks.h"
#include "plan/trial_data.h"

namespace cpuaccel::plan {
namespace {

using dnnl_layer::kSlicedRank;

constexpr int kImplementations = 3;
constexpr double kSeconds = 0.05;  // of all rounds, roughly

int rank_of(LayerWay way) {
  return 2 * way.implementation + (way.function_behind ? 1 : 0) + (way.sliced ? kSlicedRank : 0);
}
LayerWay way_of(int rank) { return {rank % kSlicedRank / 2, rank % 2 != 0, rank >= kSlicedRank}; }

// The result of timing one way.
struct Trial {
  LayerWay way;
  std::string name;
  double seconds = 0;
  bool is_same = true;  // up to rounding, its results are those of the first one
};

struct Candidate {
  Trial trial;
  std::vector<LayerDesc> descs;
  std::unique_ptr<Step> step = nullptr;
};

std::string name_of(LayerWay way, const dnnl::primitive_desc_base& desc) {
  return std::string(desc.impl_info_str()) + (way.function_behind ? " and ours behind" : "") +
         (way.sliced ? " in slices" : "");
}

// Adds the ways that differ from `way` in the implementation only, oneDNN's own choice first.
void add_candidates(std::vector<Candidate>& found, LayerWay way, const DescsOfWay& descs_of) try {
  for (; way.implementation < kImplementations; ++way.implementation) {
    auto descs = descs_of(way);
    if (std::any_of(descs.begin(), descs.end(),
                    [](const LayerDesc& each) { return is_slow(each.desc); })) {
      return;  // implementations after a reference are no candidates
    }
    std::string name = name_of(way, descs.front().desc);
    found.push_back({{way, std::move(name)}, std::move(descs)});
  }
} catch (const dnnl::error&) {
  // There are no more.
}

// All ways, oneDNN's own choice first.
std::vector<Candidate> candidates_of(std::optional<kernels::FloatFunction> function,
                                     bool may_be_sliced, const DescsOfWay& descs_of) {
  std::vector<Candidate> found;
  for (const bool sliced : {false, true}) {
    for (const bool behind : {false, true}) {
      if ((!sliced || may_be_sliced) && (!behind || function)) {
        add_candidates(found, {0, behind, sliced}, descs_of);
      }
    }
  }
  return found;
}

std::vector<Trial> try_ways(std::optional<kernels::FloatFunction> function, bool may_be_sliced,
                            const DescsOfWay& descs_of) {
  auto candidates = candidates_of(function, may_be_sliced, descs_of);
  if (candidates.size() < 2) {
    return {};
  }
  TrialData data(candidates.front().descs.front().desc);
  std::vector<float> expected;
  for (auto& candidate : candidates) {
    const bool behind = candidate.trial.way.function_behind;
    candidate.step = data.step(candidate.descs, behind ? function : std::nullopt);
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
  // Sliced ways first: the first one is taken unless another clearly wins.
  std::stable_partition(trials.begin(), trials.end(),
                        [](const Trial& trial) { return trial.way.sliced && trial.is_same; });
  return trials;
}

}  // namespace

bool is_slow(const dnnl::primitive_desc_base& desc) {
  const std::string name = desc.impl_info_str();
  return name.starts_with("ref") || name.starts_with("gemm:ref");
}

LayerWay fastest_way(const std::string& problem, std::optional<kernels::FloatFunction> function,
                     bool may_be_sliced, const DescsOfWay& descs_of) {
  if (!dnnl_layer::timing()) {
    return {};
  }
  const auto timed = [&] {
    const auto trials = try_ways(function, may_be_sliced, descs_of);
    if (trials.empty()) {
      return 0;
    }
    const auto& best = winner_of(trials);
    log_race(problem, trials, best, std::mem_fn(&Trial::name));
    return rank_of(best.way);
  };
  // For other sizes oneDNN has other implementations, which were not compared.
  const auto on_first = [](int alike) {
    auto way = way_of(alike);
    way.implementation = 0;
    return rank_of(way);
  };
  auto way = way_of(dnnl_layer::rank_of(problem, timed, on_first));
  way.function_behind = way.function_behind && function;  // even if a cache file says so
  way.sliced = way.sliced && may_be_sliced;
  return way;
}

}  // namespace cpuaccel::plan
