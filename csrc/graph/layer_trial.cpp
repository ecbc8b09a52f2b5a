#include "graph/layer_trial.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <random>
#include <utility>

#include "base/log.h"
#include "base/race.h"
#include "base/scratch.h"
#include "dnnl/ranks.h"
#include "graph/engine.h"

namespace cpuaccel::graph {
namespace {

using dnnl::memory;
using Argument = PrimitiveStep::Argument;

constexpr int kImplementations = 3;
constexpr double kSeconds = 0.05;  // of all rounds, about
constexpr unsigned kSeed = 1;

int rank_of(LayerWay way) { return 2 * way.implementation + (way.function_behind ? 1 : 0); }
LayerWay way_of(int rank) { return {rank / 2, rank % 2 != 0}; }

void reorder(const memory::desc& from, void* src, const memory::desc& to, void* dst) {
  memory source(from, engine(), src), target(to, engine(), dst);
  dnnl::reorder(source, target).execute(stream(), source, target);
}

memory::desc floats_of(const memory::desc& desc) {
  const auto dims = desc.get_dims();
  memory::dims strides(dims.size());
  int64_t stride = 1;
  for (size_t dim = dims.size(); dim-- > 0;) {
    strides[dim] = stride;
    stride *= dims[dim];
  }
  return {dims, memory::data_type::f32, strides};
}

int64_t numbers_of(const memory::desc& desc) {
  int64_t count = 1;
  for (const int64_t size : desc.get_dims()) {
    count *= size;
  }
  return count;
}

// Memory as `desc` says, with random numbers: the same for all of the same sizes.
std::shared_ptr<std::byte[]> random_block(const memory::desc& desc) {
  std::mt19937 random(kSeed);
  std::vector<float> floats(static_cast<size_t>(numbers_of(desc)));
  constexpr float kHalf = 1U << 31U;
  for (auto& value : floats) {
    value = static_cast<float>(random()) / kHalf - 1.0f;
  }
  auto block = aligned_block(std::max<size_t>(desc.get_size(), 1));
  reorder(floats_of(desc), floats.data(), desc, block.get());
  return block;
}

// A way, its primitive, and what that reads and writes.
class Candidate {
 public:
  WayTrial trial;

  Candidate(LayerWay way, dnnl::primitive_desc_base desc,
            std::optional<kernels::FloatFunction> function)
      : trial{way, desc.impl_info_str(), 0, true}, dst_desc_(desc.query_md(dnnl::query::dst_md)) {
    std::vector<Argument> in{{DNNL_ARG_SRC, desc.query_md(dnnl::query::src_md)}};
    if (const auto bias = desc.query_md(dnnl::query::weights_md, 1); !bias.is_zero()) {
      in.push_back({DNNL_ARG_BIAS, bias});
    }
    const auto attr = desc.get_primitive_attr();
    const auto post_ops = attr.get_post_ops();
    for (int i = 0; i < post_ops.len(); ++i) {
      if (post_ops.kind(i) == dnnl::primitive::kind::binary) {
        dnnl::algorithm algorithm{};
        memory::desc operand;
        post_ops.get_params_binary(i, algorithm, operand);
        in.push_back({DNNL_ARG_ATTR_MULTIPLE_POST_OP(i) | DNNL_ARG_SRC_1, operand});
      }
    }
    for (const auto& argument : in) {
      blocks_.push_back(random_block(argument.desc));
      src_.push_back(blocks_.back().get());
    }
    const auto weights = desc.query_md(dnnl::query::weights_md);
    std::vector<Argument> held{{DNNL_ARG_WEIGHTS, weights, random_block(weights)}};
    step_ = std::make_unique<PrimitiveStep>(std::move(desc), std::move(in),
                                            std::vector<Argument>{{DNNL_ARG_DST, dst_desc_}},
                                            std::move(held));
    if (way.function_behind) {
      step_->behind = {*function, numbers_of(dst_desc_)};
    }
    step_->prepare();
    blocks_.push_back(random_block(dst_desc_));
    dst_.push_back(blocks_.back().get());
  }

  double run() const {
    using Clock = std::chrono::steady_clock;
    const auto start = Clock::now();
    step_->run(src_, dst_);
    return std::chrono::duration<double>(Clock::now() - start).count();
  }

  std::vector<float> results() const {
    std::vector<float> floats(static_cast<size_t>(numbers_of(dst_desc_)));
    reorder(dst_desc_, dst_.front(), floats_of(dst_desc_), floats.data());
    return floats;
  }
  bool rounds_to_bf16() const { return dst_desc_.get_data_type() == memory::data_type::bf16; }

 private:
  memory::desc dst_desc_;
  std::vector<std::shared_ptr<std::byte[]>> blocks_;
  std::vector<void*> src_, dst_;
  std::unique_ptr<PrimitiveStep> step_;
};

// Of sums in another order, and of results that are rounded before the function as well.
bool are_near(const std::vector<float>& a, const std::vector<float>& b, bool in_bf16) {
  const float tolerance = in_bf16 ? 0.03f : 1e-3f;
  float largest = 0, apart = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    largest = std::max(largest, std::fabs(a[i]));
    const float distance = std::fabs(a[i] - b[i]);
    apart = distance > apart || std::isnan(distance) ? distance : apart;
  }
  return apart <= tolerance * largest;
}

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
        found.emplace_back(LayerWay{i, behind}, std::move(desc), function);
      } catch (const dnnl::error&) {
        break;  // there are no more
      }
    }
  }
  return found;
}

std::string shown(const WayTrial& trial) {
  char text[32];
  std::snprintf(text, sizeof(text), " %.1f us", trial.seconds * 1e6);
  return trial.implementation + (trial.way.function_behind ? " and ours behind" : "") +
         (trial.is_same ? text : " differs");
}

}  // namespace

bool is_slow(const dnnl::primitive_desc_base& desc) {
  const std::string name = desc.impl_info_str();
  return name.starts_with("ref") || name.starts_with("gemm:ref");
}

std::vector<WayTrial> try_ways(std::optional<kernels::FloatFunction> function,
                               const DescOfWay& desc_of) {
  auto candidates = candidates_of(function, desc_of);
  if (candidates.size() < 2) {
    return {};
  }
  std::vector<float> expected;
  for (auto& candidate : candidates) {
    candidate.run();
    const auto results = candidate.results();
    if (expected.empty()) {
      expected = results;
    }
    candidate.trial.is_same = are_near(expected, results, candidate.rounds_to_bf16());
  }
  race(candidates, &Candidate::trial, kSeconds,
       [](const Candidate& candidate) { return candidate.run(); });
  std::vector<WayTrial> trials;
  for (auto& candidate : candidates) {
    trials.push_back(std::move(candidate.trial));
  }
  return trials;
}

LayerWay fastest_way(const std::string& problem, std::optional<kernels::FloatFunction> function,
                     const DescOfWay& desc_of) {
  if (!dnnl_layer::timing()) {
    return {};
  }
  if (const auto known = dnnl_layer::known_rank(problem)) {
    auto way = way_of(*known);
    way.function_behind = way.function_behind && function;  // whatever a file says
    return way;
  }
  auto trials = try_ways(function, desc_of);
  if (trials.empty()) {
    return way_of(dnnl_layer::know_rank(problem, 0));
  }
  const auto& best = winner_of(trials);
  if (log_enabled()) {
    std::string text = "timed " + problem + ": ";
    for (const auto& trial : trials) {
      text += shown(trial) + ", ";
    }
    log_decision(text + "takes " + shown(best));
  }
  return way_of(dnnl_layer::know_rank(problem, rank_of(best.way)));
}

}  // namespace cpuaccel::graph
