// Attention as a plan step, on cpuaccel's kernel (family attention).
//
//   op attention in QUERY KEY VALUE [MASK | ROWS COLUMNS] out DST    scale=f: causal=b:
//
// QUERY and DST are N x H x L x E, KEY and VALUE N x H x S x E, all f32, all bf16 or all f16. MASK,
// f32 or their type, broadcasts to N x H x L x S. ROWS and COLUMNS add up to a mask: they have the
// elements of N x H x L x R x 1 and N x H x L x 1 x C in this order, with R * C = S and any first
// dimensions, and the mask of key s is ROWS[s / C] + COLUMNS[s % C]. DST has the strides of QUERY:
// if these are N x L x H x E in memory, merging the heads afterwards copies nothing.
#include <algorithm>
#include <memory>
#include <stdexcept>
#include <utility>
#include <vector>

#include "kernels/attention/attention.h"
#include "ops/attention.h"
#include "ops/kernel_call.h"
#include "plan/attention_layout.h"
#include "plan/kernel_step.h"
#include "plan/step_registry.h"
#include "plan/widened.h"

namespace cpuaccel::ops {
namespace {

using plan::Building;
using plan::Id;
using plan::Operation;
using plan::Sizes;

DataType type_of(const Building& building, Id id) {
  const DataType type = building.type(id);
  if (!plan::is_f32_or_half(type)) {
    throw std::runtime_error("attention: neither float32, bfloat16 nor float16");
  }
  return type;
}

kernels::AttentionMatrix matrix(const Building& building, Id id) {
  const auto& strides = building.desc(id).strides;
  return {nullptr, type_of(building, id), strides[0], strides[1], strides[2], strides[3]};
}

// For a tensor that broadcasts to `to`.
kernels::AttentionMatrix mask_matrix(const Building& building, Id id, const Sizes& to) {
  const auto strides = plan::broadcast_strides(building.desc(id), to);
  return {nullptr, type_of(building, id), strides[0], strides[1], strides[2], strides[3]};
}

// Elements of N x H x L x count in their order, which are copied if they do not lie so.
kernels::AttentionMatrix in_order(Building& building, Id& part, const Sizes& sizes) {
  const auto plain = dense(building.desc(part).sizes, plan::MemoryFormat::contiguous);
  if (plan::count_of(plain.sizes) != plan::count_of(sizes)) {
    throw std::runtime_error("attention: the parts of the mask do not match the keys");
  }
  part = with_layout(building, part, plain);
  const auto strides = dense(sizes, plan::MemoryFormat::contiguous).strides;
  return {nullptr, type_of(building, part), strides[0], strides[1], strides[2], strides[3]};
}

void add_mask_parts(Building& building, Id& rows, Id& columns, kernels::AttentionCall& call) {
  call.mask_width = building.desc(columns).sizes.back();
  call.mask = in_order(building, rows, {call.N, call.H, call.L, call.S / call.mask_width});
  call.mask_columns = in_order(building, columns, {call.N, call.H, call.L, call.mask_width});
}

// The queries, copied unless the elements of each are adjacent.
Id without_gaps(Building& building, Id query) {
  const auto& desc = building.desc(query);
  if (desc.strides[3] == 1 || desc.sizes[3] == 1) {
    return query;
  }
  return with_layout(building, query, dense(desc.sizes, plan::MemoryFormat::contiguous));
}

bool multiplies(const Sizes& query, const Sizes& key, const Sizes& value) {
  return query.size() == 4 && key.size() == 4 && key == value && query[0] == key[0] &&
         query[1] == key[1] && query[3] == key[3];
}

void add_attention(Building& building, const plan::Region&, const Operation& operation) {
  auto inputs = operation.inputs;
  const auto sizes = [&](size_t i) { return building.desc(inputs[i]).sizes; };
  if (!multiplies(sizes(0), sizes(1), sizes(2))) {
    throw std::runtime_error("attention: the sizes of query, key and value do not match");
  }
  inputs[0] = without_gaps(building, inputs[0]);
  const auto dst = plan::laid_out_as(building.desc(inputs[0]), sizes(0));
  kernels::AttentionCall call;
  call.N = dst.sizes[0];
  call.H = dst.sizes[1];
  call.L = dst.sizes[2];
  call.S = sizes(1)[2];
  call.E = dst.sizes[3];
  call.query = matrix(building, inputs[0]);
  call.key = matrix(building, inputs[1]);
  call.value = matrix(building, inputs[2]);
  if (inputs.size() > 4) {
    add_mask_parts(building, inputs[3], inputs[4], call);
  } else if (inputs.size() > 3) {
    call.mask = mask_matrix(building, inputs[3], {call.N, call.H, call.L, call.S});
  }
  call.dst = {nullptr, call.query.type, dst.strides[0], dst.strides[1], dst.strides[2]};
  call.scale = plan::attribute(operation.attributes, "scale", 1.0f);
  call.causal = plan::attribute(operation.attributes, "causal", false);
  add_kernel_step(building, inputs, operation.outputs[0], dst,
                  [call](std::span<void* const> in, std::span<void* const> out) {
                    CPUACCEL_KERNEL_CALL(attention);
                    auto now = call;
                    now.query.data = in[0];
                    now.key.data = in[1];
                    now.value.data = in[2];
                    now.mask.data = in.size() > 3 ? in[3] : nullptr;
                    now.mask_columns.data = in.size() > 4 ? in[4] : nullptr;
                    now.dst.data = out[0];
                    now.bf16 = attention_in_bf16(now.query.type);
                    kernels::attention(now);
                  });
}

const plan::RegisterStep kAttentionStep{"attention", add_attention};

}  // namespace
}  // namespace cpuaccel::ops
