// Data for timing steps in tuning: memory as oneDNN's descriptors say, with the same random values
// every time.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "plan/layer_desc.h"

namespace cpuaccel::plan {

using TuningBlock = std::shared_ptr<std::byte[]>;

// Memory as `desc` says, with values from -1 to 1 that depend only on their number.
TuningBlock random_block(const dnnl::memory::desc& desc);

// What all variants of a layer read, and where they write. Only the weights have a layout of
// their own for each variant.
class TuningData {
 public:
  explicit TuningData(const dnnl::primitive_desc_base& desc);

  // A variant, ready to run, with its own weights and perhaps a cpuaccel post-op on its output.
  std::unique_ptr<Step> step(const std::vector<LayerDesc>& layer, Activation eltwise);

  // The seconds of one run, whose results are in results() afterwards. dst has the same content
  // before each run, because some variants add to it. `run` gets the source, the bias and the
  // post-op operands, if there are any, and dst.
  using Run = std::function<void(std::span<void* const> in, std::span<void* const> out)>;
  double run(const Run& run);
  double run(const Step& step);

  std::vector<float> results() const;
  // Whether the results are `expected`, up to the order of sums and one more rounding.
  bool are_near(const std::vector<float>& expected) const;

 private:
  dnnl::memory::desc dst_;
  std::vector<float> floats_of_dst_, weights_;
  TuningBlock results_;
  std::vector<TuningBlock> blocks_;  // inputs of steps, in order
};

}  // namespace cpuaccel::plan
