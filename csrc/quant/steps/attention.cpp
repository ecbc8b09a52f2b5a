// The plan step q_attention: attention of quantized values with quantized softmax weights, on
// family qattention.
//
//   op q_attention in QUERY KEYS VALUES [MASK] out DST
//     query_*, key_*, value_*, weight_* quantizers, dst_* if DST is u8; scale=f:
//
//   scores = scale * QUERY KEYS + MASK;  DST = quantized(softmax(scores)) VALUES
//
// QUERY is [N x] H x L x E, KEYS [N x] H x E x S and VALUES [N x] H x S x E, all u8. MASK, f32,
// broadcasts to scores. DST, u8 or f32, has QUERY's memory layout.
#include <stdexcept>
#include <utility>
#include <vector>

#include "kernels/qattention/qattention.h"
#include "plan/attention_layout.h"
#include "quant/steps/step.h"

namespace cpuaccel::quant {
namespace {

using kernels::HeadMatrix;

enum : size_t { kQuery, kKeys, kValues, kMask };

kernels::ByteQuantizer byte_quantizer(const Operation& operation, const char* name) {
  const auto [scale, zero_point] = value_quantizer(operation, name);
  return {scale, zero_point};
}

// The strides of the last three dimensions, and of the batch if there is one.
template <typename T>
HeadMatrix<T> matrix(const Sizes& strides) {
  const size_t rank = strides.size();
  return {nullptr, rank > 3 ? strides[0] : 0, strides[rank - 3], strides[rank - 2],
          strides[rank - 1]};
}

bool sizes_match(const Sizes& query, const Sizes& keys, const Sizes& values) {
  const size_t rank = query.size();
  if ((rank != 3 && rank != 4) || keys.size() != rank || values.size() != rank) {
    return false;
  }
  for (size_t i = 0; i + 2 < rank; ++i) {
    if (keys[i] != query[i] || values[i] != query[i]) {
      return false;
    }
  }
  return query[rank - 1] == keys[rank - 2] && keys[rank - 1] == values[rank - 2] &&
         values[rank - 1] == query[rank - 1];
}

// The call without data pointers.
kernels::QattentionCall call_of(const Building& building, const Operation& operation,
                                const TensorDesc& dst) {
  const auto& in = operation.inputs;
  const auto desc = [&](size_t i) { return building.desc(in[i]); };
  const size_t rank = dst.sizes.size();
  kernels::QattentionCall call;
  call.N = rank > 3 ? dst.sizes[0] : 1;
  call.H = dst.sizes[rank - 3];
  call.L = dst.sizes[rank - 2];
  call.E = dst.sizes[rank - 1];
  call.S = desc(kKeys).sizes[rank - 1];
  if (!kernels::qattention_fits(call.S, call.E)) {
    throw std::runtime_error("q_attention: sums could overflow int32");
  }
  call.query = matrix<const uint8_t>(desc(kQuery).strides);
  call.key = matrix<const uint8_t>(desc(kKeys).strides);
  std::swap(call.key.row_stride, call.key.column_stride);
  call.value = matrix<const uint8_t>(desc(kValues).strides);
  if (in.size() > kMask) {
    Sizes scores = dst.sizes;
    scores.back() = call.S;
    call.mask = matrix<const float>(plan::broadcast_strides(desc(kMask), scores));
  }
  call.query_quantizer = byte_quantizer(operation, "query");
  call.key_quantizer = byte_quantizer(operation, "key");
  call.value_quantizer = byte_quantizer(operation, "value");
  call.weight_quantizer = byte_quantizer(operation, "weight");
  call.scale = attribute(operation.attributes, "scale", 1.0f);
  if (building.type(operation.outputs[0]) == DataType::f32) {
    call.dst_f32 = matrix<float>(dst.strides);
  } else {
    call.dst_u8 = matrix<uint8_t>(dst.strides);
    call.dst_quantizer = byte_quantizer(operation, "dst");
  }
  return call;
}

void add_attention(Building& building, const Region&, const Operation& operation) {
  const auto& in = operation.inputs;
  const auto sizes = [&](size_t i) { return building.desc(in.at(i)).sizes; };
  if (!sizes_match(sizes(kQuery), sizes(kKeys), sizes(kValues))) {
    throw std::runtime_error("q_attention: the sizes of query, key and value do not match");
  }
  const auto dst = plan::laid_out_as(building.desc(in[kQuery]), sizes(kQuery));
  const auto call = call_of(building, operation, dst);
  const bool to_f32 = building.type(operation.outputs[0]) == DataType::f32;
  add_kernel_step(
      building, in, operation.outputs[0], dst, [call, to_f32](Pointers from, Pointers out) {
        auto now = call;
        now.query.data = u8(from[kQuery]);
        now.key.data = u8(from[kKeys]);
        now.value.data = u8(from[kValues]);
        now.mask.data = from.size() > kMask ? static_cast<const float*>(from[kMask]) : nullptr;
        if (to_f32) {
          now.dst_f32.data = static_cast<float*>(out[0]);
        } else {
          now.dst_u8.data = u8(out[0]);
        }
        kernels::qattention(now);
      });
}

const RegisterStep kAttention("q_attention", add_attention);

}  // namespace
}  // namespace cpuaccel::quant
