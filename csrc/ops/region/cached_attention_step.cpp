// A decoder's attention with a cache, as a plan step.
//
//   op cached_attention in QUERY KEY VALUE out DST    site=i:
//   op cross_attention in QUERY out DST               site=i:
//
// QUERY is N x H x T x E, KEY and VALUE N x G x T x E, all f32, all bf16 or all f16; G divides H.
// DST is N x T x H x E. KEY and VALUE are appended to the cache of attention number `site` in the
// call that runs: in place if the call has said where (CachePlaces); else
// cpuaccel::cached_attention does it. cross_attention appends nothing.
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/from_blob.h>

#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

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
  CachedAttentionStep(CallHeads heads, std::vector<TensorDesc> given, int64_t site)
      : heads_(heads), given_(std::move(given)), site_(site) {}

  void run(std::span<void* const> in, std::span<void* const> out) const override {
    auto heads = heads_;
    heads.query.data = in[0];
    if (heads.appends) {
      heads.key.data = in[1];
      heads.value.data = in[2];
    }
    heads.dst.data = out[0];
    if (!CachePlaces::attend(static_cast<size_t>(site_), heads)) {
      run_op(in, out[0]);
    }
  }
  std::string kernel() const override { return "cpuaccel"; }

 private:
  // The op may keep its tensors, so it gets copies.
  void run_op(std::span<void* const> in, void* dst) const {
    const auto type = scalar_type(heads_.query.type);
    const auto copy = [&](size_t i) {
      return at::from_blob(in[i], given_[i].sizes, given_[i].strides, at::dtype(type)).clone();
    };
    const auto result =
        (heads_.appends ? call_cached(copy(0), copy(1), copy(2)) : call_cross(copy(0)))
            .contiguous();
    TORCH_CHECK(
        result.scalar_type() == type && result.sizes() == at::IntArrayRef(output_descs[0].sizes),
        "cpuaccel: an attention with a result of another size or dtype");
    std::memcpy(dst, result.const_data_ptr(), result.nbytes());
  }

  at::Tensor call_cached(const at::Tensor& query, const at::Tensor& key,
                         const at::Tensor& value) const {
    static const auto op =
        c10::Dispatcher::singleton()
            .findSchemaOrThrow("cpuaccel::cached_attention", "")
            .typed<at::Tensor(const at::Tensor&, const at::Tensor&, const at::Tensor&, int64_t)>();
    return op.call(query, key, value, site_);
  }

  at::Tensor call_cross(const at::Tensor& query) const {
    static const auto op = c10::Dispatcher::singleton()
                               .findSchemaOrThrow("cpuaccel::cross_attention", "")
                               .typed<at::Tensor(const at::Tensor&, int64_t)>();
    return op.call(query, site_);
  }

  CallHeads heads_;
  std::vector<TensorDesc> given_;
  int64_t site_;
};

kernels::AttentionMatrix unplaced(const TensorDesc& desc, DataType type) {
  const auto& strides = desc.strides;
  return {nullptr, type, strides[0], strides[1], strides[2], strides[3]};
}

// With dense rows of queries.
Id with_query_rows(Building& building, Id query) {
  const auto& desc = building.desc(query);
  if (desc.sizes.size() != 4 || !plan::is_f32_or_half(building.type(query))) {
    throw std::runtime_error("an attention with a cache: expected queries of four dimensions");
  }
  return desc.strides[3] == 1
             ? query
             : with_layout(building, query, dense(desc.sizes, plan::MemoryFormat::contiguous));
}

void add_step(Building& building, const Operation& operation, std::vector<Id> inputs,
              CallHeads heads) {
  std::vector<TensorDesc> given;
  for (const Id id : inputs) {
    given.push_back(building.desc(id));
  }
  const auto& sizes = given[0].sizes;
  const DataType type = building.type(inputs[0]);
  const auto dst = dense({sizes[0], sizes[2], sizes[1], sizes[3]}, plan::MemoryFormat::contiguous);
  heads.N = sizes[0], heads.H = sizes[1], heads.T = sizes[2], heads.E = sizes[3];
  heads.query = unplaced(given[0], type);
  heads.dst = {nullptr, type, dst.strides[0], dst.strides[2], dst.strides[1]};
  auto step = std::make_unique<CachedAttentionStep>(
      heads, std::move(given), plan::attribute(operation.attributes, "site", int64_t{0}));
  step->inputs = std::move(inputs);
  step->outputs = {operation.outputs[0]};
  step->output_descs = {dst};
  building.add(std::move(step));
}

void add_cached_attention(Building& building, const plan::Region&, const Operation& operation) {
  const auto& key = building.desc(operation.inputs[1]);
  const auto& value = building.desc(operation.inputs[2]);
  const auto sizes = building.desc(operation.inputs[0]).sizes;
  const DataType type = building.type(operation.inputs[0]);
  if (sizes.size() != 4 || key.sizes.size() != 4 || key.sizes != value.sizes ||
      key.sizes[0] != sizes[0] || key.sizes[1] <= 0 || sizes[1] % key.sizes[1] != 0 ||
      key.sizes[2] != sizes[2] || key.sizes[3] != sizes[3] ||
      building.type(operation.inputs[1]) != type || building.type(operation.inputs[2]) != type) {
    throw std::runtime_error("cached_attention: the sizes of query, key and value do not match");
  }
  CallHeads heads;
  heads.G = key.sizes[1];
  heads.key = unplaced(key, type);
  heads.value = unplaced(value, type);
  add_step(
      building, operation,
      {with_query_rows(building, operation.inputs[0]), operation.inputs[1], operation.inputs[2]},
      heads);
}

void add_cross_attention(Building& building, const plan::Region&, const Operation& operation) {
  CallHeads heads;
  heads.appends = false;
  add_step(building, operation, {with_query_rows(building, operation.inputs[0])}, heads);
}

const plan::RegisterStep kCrossAttentionStep{"cross_attention", add_cross_attention};
const plan::RegisterStep kCachedAttentionStep{"cached_attention", add_cached_attention};

}  // namespace
}  // namespace cpuaccel::ops
