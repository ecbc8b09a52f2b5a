#include "graph/layer_trial.h"

#include <memory>
#include <utility>
#include <vector>

#include "base/race.h"
#include "dnnl/ranks.h"
#include "graph/primitive_step.h"
#include "graph/tensor_desc.h"
#include "graph/trial_data.h"

namespace cpuaccel::graph {
namespace {

using dnnl::memory;
using Argument = PrimitiveStep::Argument;
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

// What all ways read, and where they write. Of weights alone each has its own layout.
class Data {
 public:
  explicit Data(const dnnl::primitive_desc_base& desc)
      : dst_(desc.query_md(dnnl::query::dst_md)),
        floats_of_dst_(random_floats(dst_)),
        weights_(random_floats(desc.query_md(dnnl::query::weights_md))),
        results_(block_of(dst_)) {
    in_.push_back({DNNL_ARG_SRC, desc.query_md(dnnl::query::src_md)});
    if (const auto bias = desc.query_md(dnnl::query::weights_md, 1); !bias.is_zero()) {
      in_.push_back({DNNL_ARG_BIAS, bias});
    }
    const auto post_ops = desc.get_primitive_attr().get_post_ops();
    for (int i = 0; i < post_ops.len(); ++i) {
      if (post_ops.kind(i) == dnnl::primitive::kind::binary) {
        dnnl::algorithm algorithm{};
        memory::desc operand;
        post_ops.get_params_binary(i, algorithm, operand);
        in_.push_back({DNNL_ARG_ATTR_MULTIPLE_POST_OP(i) | DNNL_ARG_SRC_1, operand});
      }
    }
    for (const auto& argument : in_) {
      auto floats = random_floats(argument.desc);
      blocks_.push_back(filled_block(argument.desc, floats));
    }
  }

  std::unique_ptr<PrimitiveStep> step(dnnl::primitive_desc_base desc,
                                      std::optional<kernels::FloatFunction> behind) {
    const auto weights = desc.query_md(dnnl::query::weights_md);
    std::vector<Argument> out{{DNNL_ARG_DST, dst_}};
    std::vector<Argument> held{{DNNL_ARG_WEIGHTS, weights, filled_block(weights, weights_)}};
    auto step =
        std::make_unique<PrimitiveStep>(std::move(desc), in_, std::move(out), std::move(held));
    step->output_descs = {dense(dst_.get_dims(), Order::contiguous)};
    step->behind = behind;
    step->prepare();
    return step;
  }

  // Seconds of one run, whose results then stand in results(). Before it there is always the same,
  // to which some add.
  double run(const PrimitiveStep& step) {
    write_floats(dst_, floats_of_dst_, results_.get());
    std::vector<void*> src, dst{results_.get()};
    for (const auto& block : blocks_) {
      src.push_back(block.get());
    }
    return seconds_of([&] { step.run(src, dst); });
  }

  std::vector<float> results() const { return read_floats(dst_, results_.get()); }
  memory::data_type type() const { return dst_.get_data_type(); }

 private:
  memory::desc dst_;
  std::vector<float> floats_of_dst_, weights_;
  TrialBlock results_;
  std::vector<Argument> in_;
  std::vector<TrialBlock> blocks_;
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
  Data data(candidates.front().desc);
  std::vector<float> expected;
  for (auto& candidate : candidates) {
    const bool behind = candidate.trial.way.function_behind;
    candidate.step = data.step(std::move(candidate.desc), behind ? function : std::nullopt);
    data.run(*candidate.step);
    const auto results = data.results();
    if (expected.empty()) {
      expected = results;
    }
    candidate.trial.is_same = are_near(expected, results, data.type());
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
