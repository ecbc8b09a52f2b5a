#include "plan/tuning_data.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <utility>

#include "base/huge_page_block.h"
#include "base/tuning.h"
#include "plan/build.h"
#include "plan/engine.h"
#include "plan/tensor_desc.h"

namespace cpuaccel::plan {
namespace {

using dnnl::memory;

constexpr unsigned kSeed = 1;

void reorder(const memory::desc& from, void* src, const memory::desc& to, void* dst) {
  memory source(from, engine(), src), target(to, engine(), dst);
  dnnl::reorder(source, target).execute(stream(), source, target);
}

memory::desc floats_of(const memory::desc& desc) {
  return memory_desc(DataType::f32, dense(desc.get_dims(), MemoryFormat::contiguous));
}

std::vector<float> room_for_floats(const memory::desc& desc) {
  return std::vector<float>(static_cast<size_t>(count_of(desc.get_dims())));
}

std::vector<float> random_floats(const memory::desc& desc) {
  std::minstd_rand random(kSeed);  // a large layer has millions of weights
  auto floats = room_for_floats(desc);
  constexpr float kHalf = static_cast<float>(decltype(random)::max()) / 2;
  for (auto& value : floats) {
    value = static_cast<float>(random()) / kHalf - 1.0f;
  }
  return floats;
}

TuningBlock block_of(const memory::desc& desc) {
  return aligned_block(std::max<size_t>(desc.get_size(), 1));
}

// `block`, with the layout `desc`, filled with `floats` in order.
TuningBlock filled(TuningBlock block, const memory::desc& desc, std::vector<float>& floats) {
  reorder(floats_of(desc), floats.data(), desc, block.get());
  return block;
}

}  // namespace

TuningBlock random_block(const memory::desc& desc) {
  auto floats = random_floats(desc);
  return filled(block_of(desc), desc, floats);
}

TuningData::TuningData(const dnnl::primitive_desc_base& desc)
    : dst_(desc.query_md(dnnl::query::dst_md)),
      floats_of_dst_(random_floats(dst_)),
      weights_(random_floats(desc.query_md(dnnl::query::weights_md))),
      results_(block_of(dst_)) {
  for (const auto& argument : inputs_of({desc})) {
    blocks_.push_back(random_block(argument.desc));
  }
}

std::unique_ptr<Step> TuningData::step(const std::vector<LayerDesc>& layer, Activation eltwise) {
  const auto weights = layer.front().desc.query_md(dnnl::query::weights_md);
  // The same kind of memory as a plan's packed weights.
  auto packed = filled(huge_page_block(weights.get_size()), weights, weights_);
  auto step = step_of(layer, {}, {{DNNL_ARG_WEIGHTS, weights, std::move(packed)}}, eltwise);
  step->prepare();
  return step;
}

double TuningData::run(const Run& run) {
  reorder(floats_of(dst_), floats_of_dst_.data(), dst_, results_.get());
  std::vector<void*> in, out{results_.get()};
  for (const auto& block : blocks_) {
    in.push_back(block.get());
  }
  return seconds_of([&] { run(in, out); });
}

double TuningData::run(const Step& step) {
  return run([&](std::span<void* const> in, std::span<void* const> out) { step.run(in, out); });
}

std::vector<float> TuningData::results() const {
  auto floats = room_for_floats(dst_);
  reorder(dst_, results_.get(), floats_of(dst_), floats.data());
  return floats;
}

bool TuningData::are_near(const std::vector<float>& expected) const {
  const float tolerance = dst_.get_data_type() == memory::data_type::bf16 ? 0.03f : 1e-3f;
  const auto found = results();
  float largest = 0, apart = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    largest = std::max(largest, std::fabs(expected[i]));
    const float distance = std::fabs(expected[i] - found[i]);
    apart = distance > apart || std::isnan(distance) ? distance : apart;
  }
  return apart <= tolerance * largest;
}

}  // namespace cpuaccel::plan
