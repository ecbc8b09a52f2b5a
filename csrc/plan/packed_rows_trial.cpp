#include "plan/packed_rows_trial.h"

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "base/race.h"
#include "plan/gemm_type.h"
#include "plan/packed_matrix.h"
#include "plan/trial_data.h"

namespace cpuaccel::plan {
namespace {

using dnnl::memory;
using kernels::GemmType;

constexpr double kSeconds = 0.002;  // of all rounds, roughly; a round is several runs
constexpr size_t kMostCopies = 32;  // each has to be packed

// Both ways, each in several copies that have their own weights.
class Ways {
 public:
  Ways(const RowsCall& rows, bool bf16, const LayerPrimitives& onednn)
      : rows_(rows), data_(onednn.whole) {
    const auto& call = rows.call;
    const auto md = [&](dnnl::query what) { return onednn.whole.query_md(what); };
    const auto src = md(dnnl::query::src_md), dst = md(dnnl::query::dst_md);
    const auto packed = md(dnnl::query::weights_md);
    // oneDNN gets a src that was rounded before; the rounding is not timed.
    src_ = random_block(memory_desc(data_type(call.a.type), {src.get_dims(), src.get_strides()}));
    if (inputs_of({onednn.whole}).size() < rows.inputs()) {
      addend_ = random_block(dst);  // oneDNN adds to the content of dst
    }
    const auto type = bf16 ? GemmType::bf16 : call.a.type;
    const auto plain = dense(packed.get_dims(), Order::contiguous);
    const auto weights = random_block(memory_desc(data_type(type), plain));
    const size_t k = rows.is_of_pixels ? 1 : 0;
    const kernels::GemmMatrix b{weights.get(), type, plain.strides[k], plain.strides[1 - k], 0};
    const auto bytes = packed.get_size() + src.get_size() + dst.get_size();
    const auto copies = copies_to_read(static_cast<int64_t>(bytes), kMostCopies);
    for (size_t copy = 0; copy < copies; ++copy) {
      onednn_.push_back(data_.step(onednn.descs, onednn.behind));
      own_.push_back(std::make_unique<PackedMatrix>(b, call.K, call.N, bf16));
    }
  }

  std::string name(bool own) const { return own ? own_[0]->kernel() : onednn_[0]->kernel(); }

  // Seconds of one run.
  double run(bool own) { return run(own, own_.size()) / static_cast<double>(own_.size()); }

  // Whether one run of each has the same results, up to rounding.
  bool are_same() {
    run(false, 1);
    const auto expected = data_.results();
    run(true, 1);
    return data_.are_near(expected);
  }

 private:
  double run(bool own, size_t copies) {
    return data_.run([&](std::span<void* const> in, std::span<void* const> out) {
      std::vector<void*> of_own(in.begin(), in.end());
      of_own[0] = src_.get();
      if (addend_) {
        of_own.push_back(addend_.get());
      }
      for (size_t i = 0; i < copies; ++i) {
        if (own) {
          own_[i]->multiply(rows_.on(of_own, 1, out[0]));
        } else {
          onednn_[i]->run(in, out);
        }
      }
    });
  }

  const RowsCall& rows_;
  TrialData data_;
  TrialBlock src_, addend_;
  std::vector<std::unique_ptr<Step>> onednn_;
  std::vector<std::unique_ptr<PackedMatrix>> own_;
};

struct Trial {
  bool own = false;
  double seconds = 0;
  bool is_same = true;
};

}  // namespace

bool own_is_faster(const std::string& problem, const LayerPrimitives& onednn, const RowsCall& rows,
                   bool bf16) {
  Ways ways(rows, bf16, onednn);
  std::vector<Trial> trials{{false}, {true}};
  trials[1].is_same = ways.are_same();
  race(trials, std::identity{}, kSeconds, [&](const Trial& trial) { return ways.run(trial.own); });
  const auto& best = winner_of(trials);
  log_race(problem, trials, best, [&](const Trial& trial) { return ways.name(trial.own); });
  return best.own;
}

}  // namespace cpuaccel::plan
