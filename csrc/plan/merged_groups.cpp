#include "plan/merged_groups.h"

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "base/amx.h"
#include "base/tuning.h"
#include "dnnl/tuning_cache.h"
#include "plan/strided_copy.h"
#include "plan/tuning_data.h"

namespace cpuaccel::plan {
namespace {

using dnnl::memory;

constexpr int64_t kMostChannels = 128;  // of a wide group; with more, nearly all weights are zeros
constexpr int64_t kTileChannels = 32;
constexpr double kMergeSeconds = 0.01;  // for all rounds, approximately

// How many groups to merge: none (1), or so many that tiles are at least half full.
std::vector<int64_t> candidates(int64_t groups, int64_t channels) {
  std::vector<int64_t> found{1};
  for (int64_t merged = 2; merged <= groups; ++merged) {
    const int64_t wide = merged * channels;
    if (groups % merged == 0 && 2 * wide >= kTileChannels && wide <= kMostChannels) {
      found.push_back(merged);
    }
  }
  return found;
}

struct MergeTiming {
  int64_t merged;
  std::string name;
  double seconds = 0;
  bool is_same = true;
};

struct MergeCandidate {
  MergeTiming timing;
  TuningData data;
  std::unique_ptr<Step> step;
};

dnnl::primitive_desc_base desc_of(const Shaped& shaped, int64_t merged) {
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  const auto plain = memory_desc(DataType::bf16, merge_groups(shaped.weights, merged));
  return shaped.make({plain.get_dims(), plain.get_data_type(), memory::format_tag::any}, attr, 0);
}

// As the log says it.
std::string name_of(int64_t merged, const dnnl::primitive_desc_base& desc) {
  const std::string implementation = desc.impl_info_str();
  return merged == 1 ? implementation
                     : implementation + " with " + std::to_string(merged) + " groups merged";
}

int64_t fastest(const std::string& key, const Shaped& shaped) {
  std::vector<MergeCandidate> found;
  for (const int64_t merged : candidates(shaped.weights.sizes[0], shaped.weights.sizes[2])) {
    try {
      const auto desc = desc_of(shaped, merged);
      TuningData data(desc);
      auto step = data.step({{desc}}, Activation::none);
      found.push_back({{merged, name_of(merged, desc)}, std::move(data), std::move(step)});
    } catch (const dnnl::error&) {
      continue;
    }
  }
  if (found.empty() || found.front().timing.merged != 1) {
    return 1;
  }
  time_candidates(found, &MergeCandidate::timing, kMergeSeconds,
                  [](MergeCandidate& candidate) { return candidate.data.run(*candidate.step); });
  std::vector<MergeTiming> timings;
  for (auto& candidate : found) {
    timings.push_back(std::move(candidate.timing));
  }
  const auto& best = clearly_fastest(timings);
  log_tuning(key, timings, best, std::mem_fn(&MergeTiming::name));
  return best.merged;
}

// The key in the tuning cache.
std::string tuning_key(const Shaped& shaped, bool bias) {
  std::string text = "groups";
  const auto& [strides, begin, end, holes] = shaped.window;
  for (const Sizes* sizes : {&shaped.src.sizes, &shaped.weights.sizes, &shaped.dst.sizes, &strides,
                             &begin, &end, &holes}) {
    for (const int64_t size : *sizes) {
      text += " " + std::to_string(size);
    }
    text += ";";
  }
  return text + (bias ? " bias " : " ") + dnnl_layer::tuning_conditions();
}

}  // namespace

int64_t groups_to_merge(const Building& building, const Layer& layer, const Shaped& shaped) {
  const int64_t groups = shaped.weights.sizes[0], channels = shaped.weights.sizes[2];
  if (channels == 1 || channels >= kTileChannels || !dnnl_layer::tuning_enabled() ||
      !building.is_constant(layer.weights) || building.constant(layer.weights) == nullptr) {
    return 1;
  }
  const auto key = tuning_key(shaped, layer.bias.has_value());
  const int found = dnnl_layer::tuning_result(
      key, [&] { return amx_tiles_usable() ? static_cast<int>(fastest(key, shaped)) : 1; });
  return found > 0 && groups % found == 0 ? found : 1;  // even if a cache file says so
}

TensorDesc split_groups(TensorDesc weights, int64_t groups) {
  auto& [sizes, strides] = weights;
  sizes[0] /= groups;
  sizes.insert(sizes.begin(), groups);
  strides.insert(strides.begin(), sizes[1] * strides[0]);
  return weights;
}

TensorDesc merge_groups(const TensorDesc& weights, int64_t merged) {
  if (merged == 1) {
    return weights;
  }
  Sizes sizes = weights.sizes;
  sizes[0] /= merged;
  sizes[1] *= merged;
  sizes[2] *= merged;
  return dense(sizes, MemoryFormat::contiguous);
}

std::vector<std::byte> merge_groups(const void* data, const TensorDesc& weights, DataType type,
                                    int64_t merged) {
  const auto wide = merge_groups(weights, merged);
  const auto size = data_type_size(type);
  std::vector<std::byte> result(static_cast<size_t>(count_of(wide.sizes) * size));
  // From every wide group the group at one place in it.
  TensorDesc from = weights, to = wide;
  from.sizes[0] = wide.sizes[0];
  from.strides[0] *= merged;
  to.sizes = from.sizes;
  const StridedCopy copy(from, to, size);
  for (int64_t place = 0; place < merged; ++place) {
    const int64_t OC = weights.sizes[1], IC = weights.sizes[2];
    const int64_t first = place * (OC * wide.strides[1] + IC * wide.strides[2]);
    copy.run(static_cast<const std::byte*>(data) + place * weights.strides[0] * size,
             result.data() + first * size);
  }
  return result;
}

}  // namespace cpuaccel::plan
