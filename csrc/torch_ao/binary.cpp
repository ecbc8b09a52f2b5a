// quantized::add and quantized::mul (and their _relu forms) of two quint8 tensors.

#include "kernels/binary/binary.h"

#include <ATen/core/Tensor.h>

#include "torch_ao/elementwise.h"
#include "torch_ao/names.h"

namespace cpuaccel::torch_ao {
namespace {

using kernels::BinaryOp;
using kernels::BinaryQuantizers;

// The shapes with a kernel. `whole` has the shape of the result. `other` has the same shape, or one
// value for each channel of each image, or one value.
enum class Form { same, rows, value };

struct Operands {
  const at::Tensor* whole;
  const at::Tensor* other;
  Form form;
  at::MemoryFormat format;
};

const char* operand_fallback_reason(const at::Tensor& x) {
  if (!x.is_quantized()) {
    return reasons::kNotQuantized;
  }
  if (const char* reason = quint8_fallback_reason(x)) {
    return reason;
  }
  return zero_point_fallback_reason(per_tensor(x).zero_point);
}

// Whether `other` is (N, C, 1, 1) or (1, C, 1, 1), or the same with three dimensions, and `whole`
// (N, C, H, W).
bool one_for_each_channel(const at::Tensor& whole, const at::Tensor& other) {
  if (other.dim() != whole.dim() || other.size(1) != whole.size(1) ||
      (other.size(0) != whole.size(0) && other.size(0) != 1)) {
    return false;
  }
  for (int64_t d = 2; d < whole.dim(); ++d) {
    if (other.size(d) != 1) {
      return false;
    }
  }
  return true;
}

bool channels_last(at::MemoryFormat format) {
  return format == at::MemoryFormat::ChannelsLast || format == at::MemoryFormat::ChannelsLast3d;
}

// Null, with `operands` filled in, if there is a kernel for these shapes. The result has torch's
// memory format; operands with other strides are copied.
const char* shapes_fallback_reason(const at::Tensor& whole, const at::Tensor& other,
                                   at::MemoryFormat format, Operands& operands) {
  operands = {&whole, &other, Form::same, format};
  if (whole.sizes() == other.sizes()) {
    return nullptr;
  }
  if (other.numel() == 1 && other.dim() <= whole.dim()) {
    operands.form = Form::value;
    return nullptr;
  }
  if (channels_last(format) && one_for_each_channel(whole, other)) {
    operands.form = Form::rows;
    return nullptr;
  }
  return "unsupported broadcast";
}

at::Tensor run(BinaryOp op, const Operands& operands, const BinaryQuantizers& q, double scale) {
  const KernelCall kernel_call(op == BinaryOp::add ? Op::add : Op::mul);
  const auto dense_whole = operands.whole->expect_contiguous(operands.format);
  const auto dense_other = operands.form == Form::value
                               ? c10::MaybeOwned<at::Tensor>::borrowed(*operands.other)
                               : operands.other->expect_contiguous(operands.format);
  const auto& whole = *dense_whole;
  const auto& other = *dense_other;
  auto result = empty_quantized(whole.sizes(), at::kQUInt8, scale, q.zero_point, operands.format);
  const auto* a = bytes(whole);
  const auto* b = bytes(other);
  auto* dst = mutable_bytes(result);
  const int64_t count = whole.numel();
  if (count == 0) {
    return result;
  }
  switch (operands.form) {
    case Form::same:
      kernels::binary_u8(op, a, b, dst, count, q);
      break;
    case Form::value:
      kernels::binary_value_u8(op, a, *b, dst, count, q);
      break;
    case Form::rows: {
      const int64_t images = other.size(0), columns = whole.size(1);
      kernels::binary_rows_u8(op, a, b, dst, {images, count / (images * columns), columns}, q);
      break;
    }
  }
  return result;
}

template <OpName kName, BinaryOp kOp, bool kRelu>
at::Tensor binary(at::Tensor qa, at::Tensor qb, double scale, int64_t zero_point) {
  if (engine_is_replaced()) {
    Operands operands{};
    const char* reason = operand_fallback_reason(qa);
    reason = reason == nullptr ? operand_fallback_reason(qb) : reason;
    reason = reason == nullptr ? zero_point_fallback_reason(zero_point) : reason;
    if (reason == nullptr) {
      const auto format = qa.suggest_memory_format();
      reason = shapes_fallback_reason(qa, qb, format, operands);
      // torch's product has the larger of the two shapes, its sum that of the first operand. The
      // memory format is that of the first operand.
      if (reason != nullptr && kOp == BinaryOp::mul && qa.dim() == qb.dim()) {
        reason = shapes_fallback_reason(qb, qa, format, operands) == nullptr ? nullptr : reason;
      }
    }
    if (reason == nullptr) {
      const auto a = per_tensor(*operands.whole), b = per_tensor(*operands.other);
      const BinaryQuantizers q{.scale_a = static_cast<float>(a.scale),
                               .scale_b = static_cast<float>(b.scale),
                               .scale = static_cast<float>(scale),
                               .zero_point_a = static_cast<int32_t>(a.zero_point),
                               .zero_point_b = static_cast<int32_t>(b.zero_point),
                               .zero_point = static_cast<int32_t>(zero_point),
                               .relu = kRelu};
      if (kernels::in_range(kOp, q)) {
        return run(kOp, operands, q, scale);
      }
      reason = "unsupported ratio of scales";
    }
    report_fallback(kName.text, reason);
  }
  return call_torch(kName.text, qa, qb, scale, zero_point).toTensor();
}

#define ROW(name, ...) CPUACCEL_OVERRIDE(name, c10::DispatchKey::QuantizedCPU, __VA_ARGS__)
CPUACCEL_OVERRIDES{
    ROW("quantized::add", binary, BinaryOp::add, false),
    ROW("quantized::add_relu", binary, BinaryOp::add, true),
    ROW("quantized::mul", binary, BinaryOp::mul, false),
    ROW("quantized::mul_relu", binary, BinaryOp::mul, true),
    ROW("_quantized::add", binary, BinaryOp::add, false),
};
#undef ROW

}  // namespace

}  // namespace cpuaccel::torch_ao
