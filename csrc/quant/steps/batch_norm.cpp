// The plan step q_batch_norm: batch norm between two quantizers, with an optional ReLU.
//
//   op q_batch_norm in X FACTOR OFFSET out Y    src_*, dst_*; relu=b:; FACTOR and OFFSET f32, one
//                                               per channel, as in kernels/channel_affine

#include <stdexcept>

#include "kernels/channel_affine/channel_affine.h"
#include "quant/steps/step.h"

namespace cpuaccel::quant {
namespace {

void check_fits(const Building& building, const Operation& operation, int64_t channels) {
  const auto* factor = static_cast<const float*>(building.constant(operation.inputs[1]));
  const auto* offset = static_cast<const float*>(building.constant(operation.inputs[2]));
  for (int64_t c = 0; factor != nullptr && offset != nullptr && c < channels; ++c) {
    if (!kernels::channel_affine_fits(factor[c], offset[c])) {
      throw std::runtime_error("a channel's factor or offset is too large");
    }
  }
}

void add_batch_norm(Building& building, const Region&, const Operation& operation) {
  const auto src = value_quantizer(operation, "src"), dst = value_quantizer(operation, "dst");
  const bool relu = attribute(operation.attributes, "relu", false);
  const Id from = in_format(building, operation.inputs[0], MemoryFormat::channels_last);
  const auto desc = building.desc(from);
  if (desc.sizes.size() < 2) {
    throw std::runtime_error("q_batch_norm: the input has fewer than 2 dimensions");
  }
  const int64_t C = desc.sizes[1], P = count_of(desc.sizes) / C;
  check_fits(building, operation, C);
  add_kernel_step(building, std::vector{from, operation.inputs[1], operation.inputs[2]},
                  operation.outputs[0], desc, [=](Pointers in, Pointers out) {
                    const kernels::ChannelAffine affine{.C = C,
                                                        .factor = static_cast<const float*>(in[1]),
                                                        .offset = static_cast<const float*>(in[2]),
                                                        .src_zero_point = src.zero_point,
                                                        .dst_zero_point = dst.zero_point,
                                                        .lowest = relu ? dst.zero_point : 0};
                    kernels::channel_affine_u8(affine, u8(in[0]), u8(out[0]), P);
                  });
}

const RegisterStep kBatchNorm("q_batch_norm", add_batch_norm);

}  // namespace
}  // namespace cpuaccel::quant
