#include "graph/packed_rows_trial.h"

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "base/race.h"
#include "graph/layer_trial.h"
#include "graph/packed_rows.h"
#include "graph/primitive_step.h"
#include "graph/trial_data.h"

namespace cpuaccel::graph {
namespace {

using dnnl::memory;
using kernels::GemmType;
using Argument = PrimitiveStep::Argument;

constexpr double kSeconds = 0.002;  // of all rounds, about, each of which is several runs

memory::desc matrix(GemmType type, int64_t rows, int64_t columns) {
  return memory_desc(type == GemmType::bf16 ? DataType::bf16 : DataType::f32,
                     dense({rows, columns}, Order::contiguous));
}

// In a model a layer's weights were not read since its last call: so many bytes of others' are read
// between, which leave L2 and what translates addresses of pages.
constexpr int64_t kBetween = int64_t{16} << 20;
constexpr size_t kMostCopies = 32;  // each has to be packed

// What both read, and where they write.
class Data {
 public:
  Data(const Layer& layer, const RowsCall& rows, bool bf16)
      : rows_(rows), dst_(matrix(rows.call.dst.type, rows.call.M, rows.call.N)) {
    const auto& call = rows.call;
    const auto src = matrix(call.a.type, call.M, call.K);
    auto floats = random_floats(src);
    src_ = filled_block(src, floats);
    // oneDNN's is rounded before, which is not timed.
    const auto type = bf16 ? GemmType::bf16 : call.a.type;
    const auto rounded = matrix(type, call.M, call.K);
    rounded_ = filled_block(rounded, floats);
    std::vector<Argument> in{{DNNL_ARG_SRC, rounded}};
    memory::desc bias;
    if (rows.bias) {
      bias = add(matrix(call.bias.type, 1, call.N));
      in.push_back({DNNL_ARG_BIAS, bias});
    }
    dnnl::primitive_attr attr;
    attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    dnnl::post_ops post_ops;
    if (rows.addend) {
      const auto addend = add(matrix(call.c.type, call.M, call.N));
      post_ops.append_binary(dnnl::algorithm::binary_add, addend);
      in.push_back({DNNL_ARG_ATTR_MULTIPLE_POST_OP(0) | DNNL_ARG_SRC_1, addend});
    } else if (rows.function) {
      const auto& [algorithm, alpha, beta, operand] = layer.post_ops.front();
      post_ops.append_eltwise(algorithm, alpha, beta);
    }
    attr.set_post_ops(post_ops);
    auto plain = matrix(type, call.K, call.N);
    auto numbers = random_floats(plain);
    weights_ = filled_block(plain, numbers);
    const memory::desc any(plain.get_dims(), plain.get_data_type(), memory::format_tag::any);
    const dnnl::matmul::primitive_desc desc(engine(), rounded, any, bias, dst_, attr);
    if (is_slow(desc)) {
      throw dnnl::error(dnnl_unimplemented, "oneDNN has a reference alone");
    }
    const auto packed = desc.query_md(dnnl::query::weights_md);
    const auto bytes = static_cast<int64_t>(plain.get_size());
    for (int64_t read = 0; read < kBetween && own_.size() < kMostCopies; read += bytes) {
      std::vector<Argument> held{{DNNL_ARG_WEIGHTS, packed, filled_block(packed, numbers)}};
      auto& step = onednn_.emplace_back(std::make_unique<PrimitiveStep>(
          desc, in, std::vector<Argument>{{DNNL_ARG_DST, dst_}}, std::move(held)));
      step->output_descs = {dense(dst_.get_dims(), Order::contiguous)};
      step->prepare();
      own_.push_back(std::make_unique<PackedMatrix>(
          kernels::GemmMatrix{weights_.get(), type, call.N, 1, 0}, call.K, call.N, bf16));
    }
  }

  std::string name(bool own) const { return own ? own_[0]->kernel() : onednn_[0]->kernel(); }

  // Seconds of one run, whose results then stand in results().
  double run(bool own) {
    std::vector<void*> in{own ? src_.get() : rounded_.get()};
    for (const auto& block : operands_) {
      in.push_back(block.get());
    }
    std::vector<void*> out{results_.get()};
    const double seconds = seconds_of([&] {
      for (size_t i = 0; i < own_.size(); ++i) {
        if (own) {
          own_[i]->multiply(rows_.on(in, 1, out[0]));
        } else {
          onednn_[i]->run(in, out);
        }
      }
    });
    return seconds / static_cast<double>(own_.size());
  }
  std::vector<float> results() const { return read_floats(dst_, results_.get()); }
  memory::data_type type() const { return dst_.get_data_type(); }

 private:
  // An operand that both read, in this order.
  memory::desc add(const memory::desc& desc) {
    auto floats = random_floats(desc);
    operands_.push_back(filled_block(desc, floats));
    return desc;
  }

  const RowsCall& rows_;
  memory::desc dst_;
  TrialBlock src_, rounded_, weights_;
  std::vector<TrialBlock> operands_;
  TrialBlock results_ = block_of(dst_);
  // One after the other, each with weights of its own.
  std::vector<std::unique_ptr<PrimitiveStep>> onednn_;
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
  Data data(layer, rows, bf16);
  std::vector<Trial> trials{{false}, {true}};
  data.run(false);
  const auto expected = data.results();
  data.run(true);
  trials[1].is_same = are_near(expected, data.results(), data.type());
  race(trials, std::identity{}, kSeconds, [&](const Trial& trial) { return data.run(trial.own); });
  const auto& best = winner_of(trials);
  log_race(problem, trials, best, [&](const Trial& trial) { return data.name(trial.own); });
  return best.own;
} catch (const dnnl::error&) {
  return false;  // others judge what oneDNN cannot run
}

}  // namespace cpuaccel::graph
