#include "plan/layer_tuning.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "base/tuning.h"
#include "dnnl/tuning_cache.h"
#include "plan/tuning_data.h"

namespace cpuaccel::plan {
namespace {

using dnnl_layer::kSlicedResult;

constexpr int kImplementations = 3;
constexpr double kSeconds = 0.05;  // for all rounds, approximately
constexpr double kLongRun = 0.005;

// The variant as a result in the tuning cache.
int result_of(LayerVariant variant) {
  return 2 * variant.implementation + (variant.eltwise_after ? 1 : 0) +
         (variant.sliced ? kSlicedResult : 0);
}
LayerVariant variant_of(int result) {
  return {result % kSlicedResult / 2, result % 2 != 0, result >= kSlicedResult};
}

// The result of timing one variant.
struct Timing {
  LayerVariant variant;
  std::string name;
  double seconds = 0;
  bool is_same = true;  // up to rounding, its results are those of the first one
};

struct Candidate {
  Timing timing;
  std::vector<LayerDesc> descs;
  std::unique_ptr<Step> step = nullptr;
};

std::string name_of(LayerVariant variant, const dnnl::primitive_desc_base& desc) {
  return std::string(desc.impl_info_str()) +
         (variant.eltwise_after ? " and cpuaccel post-op" : "") +
         (variant.sliced ? " in slices" : "");
}

// Adds the variants that differ from `variant` in the implementation only, oneDNN's own choice
// first.
void add_candidates(std::vector<Candidate>& found, LayerVariant variant,
                    const DescsOfVariant& descs_of) try {
  for (; variant.implementation < kImplementations; ++variant.implementation) {
    auto descs = descs_of(variant);
    if (std::any_of(descs.begin(), descs.end(),
                    [](const LayerDesc& each) { return is_reference(each.desc); })) {
      return;  // implementations after a reference are no candidates
    }
    std::string name = name_of(variant, descs.front().desc);
    found.push_back({{variant, std::move(name)}, std::move(descs)});
  }
} catch (const dnnl::error&) {
  // There are no more.
}

// All variants, oneDNN's own choice first.
std::vector<Candidate> candidates_of(Activation eltwise, bool may_be_sliced,
                                     const DescsOfVariant& descs_of) {
  std::vector<Candidate> found;
  for (const bool sliced : {false, true}) {
    for (const bool after : {false, true}) {
      if ((!sliced || may_be_sliced) && (!after || eltwise != Activation::none)) {
        add_candidates(found, {0, after, sliced}, descs_of);
      }
    }
  }
  return found;
}

std::vector<Timing> time_variants(Activation eltwise, bool may_be_sliced,
                                  const DescsOfVariant& descs_of) {
  auto candidates = candidates_of(eltwise, may_be_sliced, descs_of);
  if (candidates.size() < 2) {
    return {};
  }
  TuningData data(candidates.front().descs.front().desc);
  std::vector<float> expected;
  for (auto& candidate : candidates) {
    const bool after = candidate.timing.variant.eltwise_after;
    candidate.step = data.step(candidate.descs, after ? eltwise : Activation::none);
    candidate.timing.seconds = data.run(*candidate.step);
    if (expected.empty()) {
      expected = data.results();
    }
    candidate.timing.is_same = data.are_near(expected);
  }
  time_candidates(
      candidates, &Candidate::timing, kSeconds,
      [&](const Candidate& candidate) { return data.run(*candidate.step); }, kLongRun);
  std::vector<Timing> timings;
  for (auto& candidate : candidates) {
    timings.push_back(std::move(candidate.timing));
  }
  // Sliced variants first: the first one is taken unless another clearly wins.
  std::stable_partition(timings.begin(), timings.end(), [](const Timing& timing) {
    return timing.variant.sliced && timing.is_same;
  });
  return timings;
}

}  // namespace

bool is_reference(const dnnl::primitive_desc_base& desc) {
  const std::string name = desc.impl_info_str();
  return name.starts_with("ref") || name.starts_with("gemm:ref");
}

LayerVariant fastest_variant(const std::string& key, Activation eltwise, bool may_be_sliced,
                             const DescsOfVariant& descs_of) {
  if (!dnnl_layer::tuning_enabled()) {
    return {};
  }
  const auto tune = [&] {
    const auto timings = time_variants(eltwise, may_be_sliced, descs_of);
    if (timings.empty()) {
      return 0;
    }
    const auto& best = clearly_fastest(timings);
    log_tuning(key, timings, best, std::mem_fn(&Timing::name));
    return result_of(best.variant);
  };
  // For other sizes oneDNN has other implementations, which were not compared.
  const auto with_first_implementation = [](int similar) {
    auto variant = variant_of(similar);
    variant.implementation = 0;
    return result_of(variant);
  };
  auto variant = variant_of(dnnl_layer::tuning_result(key, tune, with_first_implementation));
  // Even if a cache file says otherwise.
  variant.eltwise_after = variant.eltwise_after && eltwise != Activation::none;
  variant.sliced = variant.sliced && may_be_sliced;
  return variant;
}

}  // namespace cpuaccel::plan
