#include "plan/packed_rows_tuning.h"

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "base/tuning.h"
#include "plan/packed_matrix.h"
#include "plan/tuning_data.h"

namespace cpuaccel::plan {
namespace {

using dnnl::memory;

constexpr double kSeconds = 0.002;  // for all rounds, approximately; a round is several runs
constexpr size_t kMostCopies = 32;  // each has to be packed

// Both candidates, each in several copies that have their own weights.
class Candidates {
 public:
  Candidates(const RowsCall& rows, bool bf16, const LayerPrimitives& onednn)
      : rows_(rows), data_(onednn.whole) {
    const auto& call = rows.call;
    const auto md = [&](dnnl::query what) { return onednn.whole.query_md(what); };
    const auto src = md(dnnl::query::src_md), dst = md(dnnl::query::dst_md);
    const auto packed = md(dnnl::query::weights_md);
    // oneDNN gets a src that was rounded before; the rounding is not timed.
    src_ = random_block(memory_desc(call.a.type, {src.get_dims(), src.get_strides()}));
    if (inputs_of({onednn.whole}).size() < rows.inputs()) {
      addend_ = random_block(dst);  // oneDNN adds to the content of dst
    }
    const auto type = bf16 ? DataType::bf16 : call.a.type;
    const auto plain = dense(packed.get_dims(), MemoryFormat::contiguous);
    const auto weights = random_block(memory_desc(type, plain));
    const size_t k = rows.is_of_pixels ? 1 : 0;
    const kernels::GemmMatrix b{weights.get(), type, plain.strides[k], plain.strides[1 - k], 0};
    const auto bytes = packed.get_size() + src.get_size() + dst.get_size();
    const auto copies = copies_to_read(static_cast<int64_t>(bytes), kMostCopies);
    for (size_t copy = 0; copy < copies; ++copy) {
      onednn_.push_back(data_.step(onednn.descs, onednn.eltwise));
      packed_.push_back(std::make_unique<PackedMatrix>(b, call.K, call.N, bf16));
    }
  }

  std::string name(bool packed) const {
    return packed ? packed_[0]->kernel() : onednn_[0]->kernel();
  }

  // Seconds of one run.
  double run(bool packed) {
    return run(packed, packed_.size()) / static_cast<double>(packed_.size());
  }

  // Whether one run of each has the same results, up to rounding.
  bool are_same() {
    run(false, 1);
    const auto expected = data_.results();
    run(true, 1);
    return data_.are_near(expected);
  }

 private:
  double run(bool packed, size_t copies) {
    return data_.run([&](std::span<void* const> in, std::span<void* const> out) {
      std::vector<void*> inputs(in.begin(), in.end());
      inputs[0] = src_.get();
      if (addend_) {
        inputs.push_back(addend_.get());
      }
      for (size_t i = 0; i < copies; ++i) {
        if (packed) {
          packed_[i]->multiply(rows_.on(inputs, 1, out[0]));
        } else {
          onednn_[i]->run(in, out);
        }
      }
    });
  }

  const RowsCall& rows_;
  TuningData data_;
  TuningBlock src_, addend_;
  std::vector<std::unique_ptr<Step>> onednn_;
  std::vector<std::unique_ptr<PackedMatrix>> packed_;
};

struct Timing {
  bool packed = false;
  double seconds = 0;
  bool is_same = true;
};

}  // namespace

bool cpuaccel_is_faster(const std::string& key, const LayerPrimitives& onednn, const RowsCall& rows,
                        bool bf16) {
  Candidates candidates(rows, bf16, onednn);
  std::vector<Timing> timings{{false}, {true}};
  timings[1].is_same = candidates.are_same();
  time_candidates(timings, std::identity{}, kSeconds,
                  [&](const Timing& timing) { return candidates.run(timing.packed); });
  const auto& best = clearly_fastest(timings);
  log_tuning(key, timings, best,
             [&](const Timing& timing) { return candidates.name(timing.packed); });
  return best.packed;
}

}  // namespace cpuaccel::plan
