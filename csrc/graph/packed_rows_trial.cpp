#include "graph/packed_rows_trial.h"

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "base/race.h"
#include "graph/engine.h"
#include "graph/layer_trial.h"
#include "graph/packed_matrix.h"
#include "graph/trial_data.h"

namespace cpuaccel::graph {
namespace {

using dnnl::memory;
using kernels::GemmType;

constexpr double kSeconds = 0.002;  // of all rounds, about, each of which is several runs
constexpr size_t kMostCopies = 32;  // each has to be packed

memory::desc matrix(GemmType type, int64_t rows, int64_t columns) {
  return memory_desc(type == GemmType::bf16 ? DataType::bf16 : DataType::f32,
                     dense({rows, columns}, Order::contiguous));
}

// oneDNN's primitive for `rows`, its source and its weights of `type`. Throws dnnl::error where
// there is nothing but a reference.
dnnl::primitive_desc_base desc_of(const Layer& layer, const RowsCall& rows, GemmType type) {
  const auto& call = rows.call;
  dnnl::post_ops post_ops;
  if (rows.addend) {
    post_ops.append_binary(dnnl::algorithm::binary_add, matrix(call.c.type, call.M, call.N));
  } else if (rows.function) {
    const auto& [algorithm, alpha, beta, operand] = layer.post_ops.front();
    post_ops.append_eltwise(algorithm, alpha, beta);
  }
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  attr.set_post_ops(post_ops);
  const auto plain = matrix(type, call.K, call.N);
  const dnnl::matmul::primitive_desc desc(
      engine(), matrix(type, call.M, call.K),
      {plain.get_dims(), plain.get_data_type(), memory::format_tag::any},
      rows.bias ? matrix(call.bias.type, 1, call.N) : memory::desc(),
      matrix(call.dst.type, call.M, call.N), attr);
  if (is_slow(desc)) {
    throw dnnl::error(dnnl_unimplemented, "oneDNN has a reference alone");
  }
  return desc;
}

// Both ways, each in copies that have weights of their own.
class Ways {
 public:
  Ways(const RowsCall& rows, bool bf16, const dnnl::primitive_desc_base& desc)
      : rows_(rows),
        data_(desc),
        src_(random_block(matrix(rows.call.a.type, rows.call.M, rows.call.K))) {
    const auto& call = rows.call;
    const auto type = type_of(rows, bf16);
    const auto plain = matrix(type, call.K, call.N);
    const auto weights = random_block(plain);
    const auto copies = copies_to_read(static_cast<int64_t>(plain.get_size()), kMostCopies);
    for (size_t copy = 0; copy < copies; ++copy) {
      onednn_.push_back(data_.step({{desc}}, std::nullopt));
      own_.push_back(std::make_unique<PackedMatrix>(
          kernels::GemmMatrix{weights.get(), type, call.N, 1, 0}, call.K, call.N, bf16));
    }
  }

  // Of oneDNN's source and weights: the source is rounded before, which is not timed.
  static GemmType type_of(const RowsCall& rows, bool bf16) {
    return bf16 ? GemmType::bf16 : rows.call.a.type;
  }

  std::string name(bool own) const { return own ? own_[0]->kernel() : onednn_[0]->kernel(); }

  // Seconds of one run, whose results then stand in data().
  double run(bool own) {
    const double seconds = data_.run([&](std::span<void* const> in, std::span<void* const> out) {
      std::vector<void*> of_own(in.begin(), in.end());
      of_own[0] = src_.get();
      for (size_t i = 0; i < own_.size(); ++i) {
        if (own) {
          own_[i]->multiply(rows_.on(of_own, 1, out[0]));
        } else {
          onednn_[i]->run(in, out);
        }
      }
    });
    return seconds / static_cast<double>(own_.size());
  }
  const TrialData& data() const { return data_; }

 private:
  const RowsCall& rows_;
  TrialData data_;
  TrialBlock src_;
  std::vector<std::unique_ptr<Step>> onednn_;
  std::vector<std::unique_ptr<PackedMatrix>> own_;
};

struct Trial {
  bool own = false;
  double seconds = 0;
  bool is_same = true;
};

}  // namespace

bool own_is_faster(const std::string& problem, const Layer& layer, const RowsCall& rows,
                   bool bf16) try {
  Ways ways(rows, bf16, desc_of(layer, rows, Ways::type_of(rows, bf16)));
  std::vector<Trial> trials{{false}, {true}};
  ways.run(false);
  const auto expected = ways.data().results();
  ways.run(true);
  trials[1].is_same = ways.data().are_near(expected);
  race(trials, std::identity{}, kSeconds, [&](const Trial& trial) { return ways.run(trial.own); });
  const auto& best = winner_of(trials);
  log_race(problem, trials, best, [&](const Trial& trial) { return ways.name(trial.own); });
  return best.own;
} catch (const dnnl::error&) {
  return false;  // others judge what oneDNN cannot run
}

}  // namespace cpuaccel::graph
