// Elementwise plan steps of quantized tensors: quantize, dequantize, table lookup, add and mul.
//
//   op quantize in X [F] out Y  to_*: f32 to u8; with F, of X * F, a factor per image and channel.
//                               Images become channels last, which is what layers read
//   op dequantize in X out Y    from_*: u8 to f32
//   op q_table in X out Y       table=is: 256 entries: any function of one u8
//   op q_add, q_mul in A B out Y
//       a_*, b_*, to_*; relu=b:. B has A's sizes, or one element per image and channel of A

#include <stdexcept>

#include "kernels/binary/binary.h"
#include "kernels/dequantize/dequantize.h"
#include "kernels/lookup_table/lookup_table.h"
#include "kernels/quantize/quantize.h"
#include "quant/steps/step.h"

namespace cpuaccel::quant {
namespace {

// Adds a step that computes each dst element from the src element at the same offset. `function`
// gets src, dst and the number of elements.
template <class Function>
void add_each(Building& building, const Operation& operation, Function function) {
  const Id from = without_gaps(building, operation.inputs[0]);
  const auto desc = building.desc(from);
  add_kernel_step(building, {from}, operation.outputs[0], desc,
                  [function, count = count_of(desc.sizes)](Pointers in, Pointers out) {
                    function(in[0], out[0], count);
                  });
}

// Whether `b` has one element per image and channel of `a`.
bool is_for_channels(const Sizes& a, const Sizes& b) {
  return a.size() > 2 && a.size() == b.size() && a[0] == b[0] && a[1] == b[1] &&
         count_of(b) == b[0] * b[1];
}

void add_scaled_quantize(Building& building, const Operation& operation) {
  const auto q = value_quantizer(operation, "to");
  const auto sizes = building.desc(operation.inputs[0]).sizes;
  if (!is_for_channels(sizes, building.desc(operation.inputs[1]).sizes)) {
    throw std::runtime_error("quantize: the factors are not one for each image and channel");
  }
  const Id src = in_format(building, operation.inputs[0], MemoryFormat::channels_last);
  const Id factors = in_format(building, operation.inputs[1], MemoryFormat::channels_last);
  const kernels::QuantizeRows rows{sizes[0], count_of(sizes) / (sizes[0] * sizes[1]), sizes[1]};
  add_kernel_step(building, {src, factors}, operation.outputs[0], building.desc(src),
                  [=](Pointers in, Pointers out) {
                    kernels::quantize_scaled_u8(static_cast<const float*>(in[0]),
                                                static_cast<const float*>(in[1]), u8(out[0]), rows,
                                                q.scale, q.zero_point);
                  });
}

void add_quantize(Building& building, const Region&, const Operation& operation) {
  if (operation.inputs.size() > 1) {
    add_scaled_quantize(building, operation);
    return;
  }
  const auto q = value_quantizer(operation, "to");
  const auto& desc = building.desc(operation.inputs[0]);
  const auto last = plan::dense(desc.sizes, MemoryFormat::channels_last);
  if (desc.sizes.size() > 3 && !plan::same_layout(desc, last) &&
      plan::same_layout(desc, plan::dense(desc.sizes, MemoryFormat::contiguous))) {
    const auto& sizes = desc.sizes;
    const kernels::QuantizePlanes planes{sizes[0], sizes[1],
                                         count_of(sizes) / (sizes[0] * sizes[1])};
    add_kernel_step(building, {operation.inputs[0]}, operation.outputs[0], last,
                    [=](Pointers in, Pointers out) {
                      kernels::quantize_planes_u8(static_cast<const float*>(in[0]), u8(out[0]),
                                                  planes, q.scale, q.zero_point);
                    });
    return;
  }
  add_each(building, operation, [q](const void* src, void* dst, int64_t count) {
    kernels::quantize_u8(static_cast<const float*>(src), u8(dst), count, q.scale, q.zero_point);
  });
}

void add_dequantize(Building& building, const Region&, const Operation& operation) {
  const auto q = value_quantizer(operation, "from");
  add_each(building, operation, [q](void* src, void* dst, int64_t count) {
    kernels::dequantize_u8(u8(src), static_cast<float*>(dst), count, q.scale, q.zero_point);
  });
}

void add_table(Building& building, const Region&, const Operation& operation) {
  const auto entries = attribute(operation.attributes, "table", List());
  const std::vector<uint8_t> table(entries.begin(), entries.end());
  if (table.size() != kernels::kTableEntries) {
    throw std::runtime_error("q_table: table: expected 256 entries, got " +
                             std::to_string(table.size()));
  }
  add_each(building, operation, [table](void* src, void* dst, int64_t count) {
    kernels::lookup_table_u8(u8(src), u8(dst), count, table.data());
  });
}

void add_binary(Building& building, const Region&, const Operation& operation) {
  const auto a = value_quantizer(operation, "a"), b = value_quantizer(operation, "b"),
             to = value_quantizer(operation, "to");
  const kernels::BinaryQuantizers q{
      .scale_a = a.scale,
      .scale_b = b.scale,
      .scale = to.scale,
      .zero_point_a = a.zero_point,
      .zero_point_b = b.zero_point,
      .zero_point = to.zero_point,
      .relu = attribute(operation.attributes, "relu", false),
  };
  const auto op = operation.name == "q_add" ? kernels::BinaryOp::add : kernels::BinaryOp::mul;
  if (!kernels::in_range(op, q)) {
    throw std::runtime_error(operation.name + ": results could overflow int32");
  }
  const auto sizes_a = building.desc(operation.inputs[0]).sizes;
  const auto sizes_b = building.desc(operation.inputs[1]).sizes;
  if (sizes_a == sizes_b) {
    const Id left = without_gaps(building, operation.inputs[0]);
    const auto desc = building.desc(left);
    const Id right = in_format(building, operation.inputs[1], format_to_have(desc));
    const int64_t count = count_of(sizes_a);
    add_kernel_step(building, {left, right}, operation.outputs[0], desc,
                    [=](Pointers in, Pointers out) {
                      kernels::binary_u8(op, u8(in[0]), u8(in[1]), u8(out[0]), count, q);
                    });
    return;
  }
  if (!is_for_channels(sizes_a, sizes_b)) {
    throw std::runtime_error(operation.name + ": the sizes of the operands do not match");
  }
  const Id left = in_format(building, operation.inputs[0], MemoryFormat::channels_last);
  const Id right = in_format(building, operation.inputs[1], MemoryFormat::channels_last);
  const kernels::BinaryRows rows{sizes_a[0], count_of(sizes_a) / (sizes_a[0] * sizes_a[1]),
                                 sizes_a[1]};
  add_kernel_step(building, {left, right}, operation.outputs[0], building.desc(left),
                  [=](Pointers in, Pointers out) {
                    kernels::binary_rows_u8(op, u8(in[0]), u8(in[1]), u8(out[0]), rows, q);
                  });
}

const RegisterStep kQuantize("quantize", add_quantize);
const RegisterStep kDequantize("dequantize", add_dequantize);
const RegisterStep kTable("q_table", add_table);
const RegisterStep kAdd("q_add", add_binary);
const RegisterStep kMul("q_mul", add_binary);

}  // namespace
}  // namespace cpuaccel::quant
