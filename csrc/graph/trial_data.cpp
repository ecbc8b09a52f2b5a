#include "graph/trial_data.h"

#include <algorithm>
#include <cmath>
#include <random>

#include "base/scratch.h"
#include "graph/build.h"
#include "graph/tensor_desc.h"

namespace cpuaccel::graph {
namespace {

using dnnl::memory;

constexpr unsigned kSeed = 1;

void reorder(const memory::desc& from, void* src, const memory::desc& to, void* dst) {
  memory source(from, engine(), src), target(to, engine(), dst);
  dnnl::reorder(source, target).execute(stream(), source, target);
}

memory::desc floats_of(const memory::desc& desc) {
  return memory_desc(DataType::f32, dense(desc.get_dims(), Order::contiguous));
}

std::vector<float> room_for_floats(const memory::desc& desc) {
  return std::vector<float>(static_cast<size_t>(count_of(desc.get_dims())));
}

}  // namespace

std::vector<float> random_floats(const memory::desc& desc) {
  std::mt19937 random(kSeed);
  auto floats = room_for_floats(desc);
  constexpr float kHalf = 1U << 31U;
  for (auto& value : floats) {
    value = static_cast<float>(random()) / kHalf - 1.0f;
  }
  return floats;
}

TrialBlock block_of(const memory::desc& desc) {
  return aligned_block(std::max<size_t>(desc.get_size(), 1));
}

void write_floats(const memory::desc& desc, std::vector<float>& floats, void* to) {
  reorder(floats_of(desc), floats.data(), desc, to);
}

std::vector<float> read_floats(const memory::desc& desc, void* from) {
  auto floats = room_for_floats(desc);
  reorder(desc, from, floats_of(desc), floats.data());
  return floats;
}

TrialBlock filled_block(const memory::desc& desc, std::vector<float>& floats) {
  auto block = block_of(desc);
  write_floats(desc, floats, block.get());
  return block;
}

bool are_near(const std::vector<float>& a, const std::vector<float>& b, memory::data_type type) {
  const float tolerance = type == memory::data_type::bf16 ? 0.03f : 1e-3f;
  float largest = 0, apart = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    largest = std::max(largest, std::fabs(a[i]));
    const float distance = std::fabs(a[i] - b[i]);
    apart = distance > apart || std::isnan(distance) ? distance : apart;
  }
  return apart <= tolerance * largest;
}

}  // namespace cpuaccel::graph
