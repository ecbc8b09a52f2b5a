// What trials of steps read and write: memory as oneDNN's descriptions say, with numbers that are
// the same in every trial.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "graph/layer_desc.h"

namespace cpuaccel::graph {

using TrialBlock = std::shared_ptr<std::byte[]>;

// Memory as `desc` says, with numbers from -1 to 1 that depend on how many there are alone.
TrialBlock random_block(const dnnl::memory::desc& desc);

// What all ways of running a layer read, and where they write. Of weights alone each has its own
// layout.
class TrialData {
 public:
  explicit TrialData(const dnnl::primitive_desc_base& desc);

  // A way, ready to run, with weights of its own and perhaps a function of ours behind it.
  std::unique_ptr<Step> step(const std::vector<LayerDesc>& layer,
                             std::optional<kernels::FloatFunction> behind);

  // Seconds of one run, whose results then stand in results(). Before it there is always the same,
  // to which some add. `run` gets the source, the bias and the operands that there are, and dst.
  using Run = std::function<void(std::span<void* const> in, std::span<void* const> out)>;
  double run(const Run& run);
  double run(const Step& step);

  std::vector<float> results() const;
  // Whether results are `expected` but for sums in another order, and for rounding once more on the
  // way.
  bool are_near(const std::vector<float>& expected) const;

 private:
  dnnl::memory::desc dst_;
  std::vector<float> floats_of_dst_, weights_;
  TrialBlock results_;
  std::vector<TrialBlock> blocks_;  // of what steps read, in order
};

}  // namespace cpuaccel::graph
