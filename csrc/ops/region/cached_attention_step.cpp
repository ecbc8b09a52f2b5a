// A decoder's attention with a cache, as a plan step.
//
//   op cached_attention in QUERY KEY VALUE out DST    site=i:
//
// QUERY is N x H x T x E, KEY and VALUE N x G x T x E, all f32, all bf16 or all f16; G divides H.
// DST is N x T x H x E. KEY and VALUE are appended to the cache of attention number `site` in the
// call that runs: in place if the call has said where (CachePlaces); else
// cpuaccel::cached_attention does it.
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/from_blob.h>

#include <array>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

#include "ops/cached_attention.h"
#include "ops/region/cache_places.h"
#include "ops/region/prepare.h"
#include "plan/build.h"
#include "plan/step_registry.h"
#include "plan/widened.h"

namespace cpuaccel::ops {
namespace {

using plan::Building;
using plan::Id;
using plan::Operation;
using plan::TensorDesc;

class CachedAttentionStep final : public plan::Step {
 public:
  CachedAttentionStep(AppendedHeads heads, std::array<TensorDesc, 3> given, int64_t site)
      : heads_(heads), given_(std::move(given)), site_(site) {}

  void run(std::span<void* const> in, std::span<void* const> out) const override {
    auto heads = heads_;
    heads.query.data = in[0];
    heads.key.data = in[1];
    heads.value.data = in[2];
    heads.dst.data = out[0];
    if (!CachePlaces::attend(static_cast<size_t>(site_), heads)) {
      run_op(in, out[0]);
    }
  }
  std::string kernel() const override { return "cpuaccel"; }

 private:
  // The op may keep its tensors, so it gets copies.
  void run_op(std::span<void* const> in, void* dst) const {
    static const auto op =
        c10::Dispatcher::singleton()
            .findSchemaOrThrow("cpuaccel::cached_attention", "")
            .typed<at::Tensor(const at::Tensor&, const at::Tensor&, const at::Tensor&, int64_t)>();
    const auto type = scalar_type(heads_.query.type);
    const auto copy = [&](size_t i) {
      return at::from_blob(in[i], given_[i].sizes, given_[i].strides, at::dtype(type)).clone();
    };
    const auto result = op.call(copy(0), copy(1), copy(2), site_).contiguous();
    TORCH_CHECK(
        result.scalar_type() == type && result.sizes() == at::IntArrayRef(output_descs[0].sizes),
        "cpuaccel::cached_attention: a result of another size or dtype");
    std::memcpy(dst, result.const_data_ptr(), result.nbytes());
  }

  AppendedHeads heads_;
  std::array<TensorDesc, 3> given_;
  int64_t site_;
};

kernels::AttentionMatrix unplaced(const TensorDesc& desc, DataType type) {
  const auto& strides = desc.strides;
  return {nullptr, type, strides[0], strides[1], strides[2], strides[3]};
}

void add_cached_attention(Building& building, const plan::Region&, const Operation& operation) {
  const auto& key = building.desc(operation.inputs[1]);
  const auto& value = building.desc(operation.inputs[2]);
  const auto sizes = building.desc(operation.inputs[0]).sizes;
  const DataType type = building.type(operation.inputs[0]);
  if (sizes.size() != 4 || key.sizes.size() != 4 || key.sizes != value.sizes ||
      key.sizes[0] != sizes[0] || key.sizes[1] <= 0 || sizes[1] % key.sizes[1] != 0 ||
      key.sizes[2] != sizes[2] || key.sizes[3] != sizes[3] || !plan::is_f32_or_half(type) ||
      building.type(operation.inputs[1]) != type || building.type(operation.inputs[2]) != type) {
    throw std::runtime_error("cached_attention: the sizes of query, key and value do not match");
  }
  Id query = operation.inputs[0];
  if (building.desc(query).strides[3] != 1) {
    query = with_layout(building, query, dense(sizes, plan::MemoryFormat::contiguous));
  }
  const std::array given{building.desc(query), building.desc(operation.inputs[1]),
                         building.desc(operation.inputs[2])};
  const auto dst = dense({sizes[0], sizes[2], sizes[1], sizes[3]}, plan::MemoryFormat::contiguous);
  AppendedHeads heads{sizes[0],
                      sizes[1],
                      given[1].sizes[1],
                      sizes[2],
                      sizes[3],
                      unplaced(given[0], type),
                      unplaced(given[1], type),
                      unplaced(given[2], type),
                      {nullptr, type, dst.strides[0], dst.strides[2], dst.strides[1]}};
  auto step = std::make_unique<CachedAttentionStep>(
      heads, given, plan::attribute(operation.attributes, "site", int64_t{0}));
  step->inputs = {query, operation.inputs[1], operation.inputs[2]};
  step->outputs = {operation.outputs[0]};
  step->output_descs = {dst};
  building.add(std::move(step));
}

const plan::RegisterStep kCachedAttentionStep{"cached_attention", add_cached_attention};

}  // namespace
}  // namespace cpuaccel::ops
