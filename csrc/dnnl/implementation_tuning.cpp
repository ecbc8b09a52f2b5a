#include "dnnl/implementation_tuning.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/tuning.h"
#include "dnnl/primitive.h"
#include "dnnl/slices.h"
#include "dnnl/tuning_cache.h"
#include "dnnl/weights.h"

namespace cpuaccel::dnnl_layer {
namespace {

constexpr int kImplementations = 3;
constexpr double kSeconds = 0.05;  // for all rounds, approximately
constexpr int32_t kSrcZeroPoint = 117, kDstZeroPoint = 93;
constexpr unsigned kSeed = 1;

// Older instructions saturate sums of two products to 16 bits.
bool is_exact(const Primitive& primitive) {
  const auto& name = primitive.implementation();
  return name.find("vnni") != std::string::npos || name.find("amx") != std::string::npos;
}

// The timing of one implementation.
struct ImplementationTiming {
  int implementation = 0;
  bool sliced = false;
  std::string name;
  double seconds = 0;
  bool is_same = true;  // bit for bit the first one's results
};

struct Candidate {
  ImplementationTiming timing;
  std::unique_ptr<const Primitive> primitive;
  std::unique_ptr<const PackedWeights> weights;
};

// The memory that all candidates read and write.
class Data {
 public:
  explicit Data(const Problem& problem)
      : problem_(problem),
        src_(static_cast<size_t>(problem.N * problem.IC * volume(problem.src, problem.spatial))),
        before_(static_cast<size_t>(problem.N * problem.OC * volume(problem.dst, problem.spatial)) *
                (problem.f32_dst ? sizeof(float) : 1)),
        guarded_dst_(before_.size() + 2 * kGuard),
        scales_(static_cast<size_t>(problem.OC)),
        bias_(scales_.size()) {
    std::mt19937 random(kSeed);
    const int64_t terms = problem.IC / problem.groups * volume(problem.kernel, problem.spatial);
    weights_.resize(static_cast<size_t>(problem.OC * terms));
    for (auto& value : src_) {
      value = static_cast<uint8_t>(random());
    }
    for (auto& value : weights_) {
      value = static_cast<int8_t>(random());
    }
    if (!problem.f32_dst) {
      for (auto& value : before_) {
        value = static_cast<uint8_t>(random());
      }
    }
    // Makes results some tens of quanta: |src * weight| is about 74 * 74.
    const float scale = 40.0f / (5476.0f * std::sqrt(static_cast<float>(terms)));
    for (size_t oc = 0; oc < scales_.size(); ++oc) {
      scales_[oc] = scale;
      bias_[oc] = static_cast<float>(random() % 16);
    }
  }

  const int8_t* weights() const { return weights_.data(); }

  // Returns the seconds of one run of `candidate`, whose results are then in dst().
  double run(const Candidate& candidate) {
    std::fill(guarded_dst_.begin(), guarded_dst_.end(), kGuardByte);
    std::copy(before_.begin(), before_.end(), guarded_dst_.begin() + kGuard);
    Arguments arguments;
    arguments.src = src_.data();
    arguments.weights = candidate.weights->data();
    arguments.bias = bias_.data();
    arguments.scales = scales_.data();
    arguments.src_zero_point = problem_.src_zero_point ? kSrcZeroPoint : 0;
    arguments.dst_zero_point = problem_.dst_zero_point ? kDstZeroPoint : 0;
    arguments.dst = guarded_dst_.data() + kGuard;
    return seconds_of([&] { candidate.primitive->execute(arguments); });
  }

  // The results, with the guard bytes before and behind them.
  const std::vector<uint8_t>& guarded_dst() const { return guarded_dst_; }
  bool wrote_elsewhere() const {
    const auto is_other = [](uint8_t byte) { return byte != kGuardByte; };
    return std::any_of(guarded_dst_.begin(), guarded_dst_.begin() + kGuard, is_other) ||
           std::any_of(guarded_dst_.end() - kGuard, guarded_dst_.end(), is_other);
  }

 private:
  static constexpr ptrdiff_t kGuard = 64 * 1024;
  static constexpr uint8_t kGuardByte = 0x5a;

  const Problem& problem_;
  std::vector<uint8_t> src_, before_, guarded_dst_;
  std::vector<int8_t> weights_;
  std::vector<float> scales_, bias_;
};

// Adds the first few implementations of `problem`, oneDNN's own choice first.
void add_candidates(std::vector<Candidate>& found, Problem problem, const Data& data) {
  for (problem.implementation = 0; problem.implementation < kImplementations;
       ++problem.implementation) {
    Candidate candidate{
        {problem.implementation, problem.slices > 1, "", 0, true}, nullptr, nullptr};
    try {
      candidate.primitive = std::make_unique<const Primitive>(problem);
    } catch (const dnnl::error&) {
      return;  // there are no more
    }
    if (!is_exact(*candidate.primitive)) {
      return;
    }
    candidate.timing.name = candidate.primitive->implementation();
    candidate.weights = std::make_unique<const PackedWeights>(problem, data.weights(),
                                                              candidate.primitive->weights_desc());
    found.push_back(std::move(candidate));
  }
}

Problem in_slices(Problem problem) {
  problem.slices = problem.threads;
  return problem;
}

std::vector<Candidate> candidates_of(const Problem& problem, const Data& data) {
  std::vector<Candidate> found;
  add_candidates(found, problem, data);
  if (problem.threads > 1 && !found.empty()) {
    add_candidates(found, in_slices(problem), data);
  }
  return found;
}

// Times the first few implementations of `problem` on the same data, unsliced and in slices. The
// first result is the one to choose if none clearly wins. Any choice must give the results of
// oneDNN's own choice (is_same).
std::vector<ImplementationTiming> time_implementations(const Problem& problem) {
  Data data(problem);
  auto candidates = candidates_of(problem, data);
  if (candidates.size() < 2) {
    return {};
  }
  std::vector<uint8_t> expected;
  for (auto& candidate : candidates) {
    data.run(candidate);
    if (expected.empty()) {
      expected = data.guarded_dst();
    }
    candidate.timing.is_same = data.guarded_dst() == expected && !data.wrote_elsewhere();
  }
  time_candidates(candidates, &Candidate::timing, kSeconds,
                  [&](const Candidate& candidate) { return data.run(candidate); });
  std::vector<ImplementationTiming> timings;
  for (auto& candidate : candidates) {
    timings.push_back(std::move(candidate.timing));
  }
  std::stable_partition(timings.begin(), timings.end(), [](const ImplementationTiming& timing) {
    return timing.sliced && timing.is_same;
  });
  return timings;
}

// The key in the tuning cache: everything that decides which implementations oneDNN has.
std::string tuning_key(const Problem& problem) {
  return to_string(problem) + (problem.bias ? " bias" : "") +
         (problem.sum_zero_point != 0 ? " sum_zp" : "") + " i" + std::to_string(problem.isa) +
         (slices_of(in_slices(problem)).empty() ? "" : " slices");
}

int tuned_choice(const Problem& problem, const std::string& key) {
  const auto timings = time_implementations(problem);
  if (timings.empty()) {
    return 0;
  }
  const auto& best = clearly_fastest(timings);
  log_tuning(key, timings, best, std::mem_fn(&ImplementationTiming::name));
  return best.implementation + (best.sliced ? kSlicedResult : 0);
}

}  // namespace

Problem fastest(Problem problem) {
  if (!tuning_enabled()) {
    return problem;
  }
  const std::string key = tuning_key(problem);
  // From a problem of other sizes only the slicing is taken over: which implementation has a
  // number, and whether it is exact, depends on the sizes.
  const auto slicing_of = [](int similar) { return similar / kSlicedResult * kSlicedResult; };
  const int choice = tuning_result(key, [&] { return tuned_choice(problem, key); }, slicing_of);
  problem.implementation = choice % kSlicedResult;
  return choice < kSlicedResult ? problem : in_slices(problem);
}

}  // namespace cpuaccel::dnnl_layer
