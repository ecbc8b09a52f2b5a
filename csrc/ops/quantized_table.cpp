// torch.ops.cpuaccel.quantized_table: any function of one quint8 tensor, given as 256 bytes.

#include <torch/library.h>

#include <cmath>

#include "kernels/table/table.h"
#include "ops/elementwise.h"
#include "ops/own_call.h"

namespace cpuaccel::ops {
namespace {

// table[q] for each byte q of `qx`, with a quantiser that says what the results mean. The memory
// format is that of `qx`.
at::Tensor quantized_table(const at::Tensor& qx, const at::Tensor& table, double scale,
                           int64_t zero_point) {
  constexpr auto kOp = "cpuaccel::quantized_table";
  TORCH_CHECK(qx.scalar_type() == at::kQUInt8, kOp, ": expected qx to be quint8, but got ",
              toString(qx.scalar_type()));
  TORCH_CHECK(qx.qscheme() == at::kPerTensorAffine, kOp,
              ": expected qx to be quantized per tensor, but got qscheme ", toString(qx.qscheme()));
  TORCH_CHECK(table.scalar_type() == at::kByte && table.dim() == 1 &&
                  table.numel() == kernels::kTableEntries && table.device().is_cpu(),
              kOp, ": expected table to be uint8[256] on the CPU, but got ",
              toString(table.scalar_type()), table.sizes(), " on ", table.device());
  TORCH_CHECK(std::isfinite(scale) && scale > 0.0, kOp,
              ": expected scale to be positive and finite, but got ", scale);
  TORCH_CHECK(zero_point >= 0 && zero_point <= 255, kOp,
              ": expected zero_point to be between 0 and 255, but got ", zero_point);
  const auto format = qx.suggest_memory_format();
  const auto src = qx.contiguous(format);
  const auto entries = table.contiguous();
  CPUACCEL_OWN_CALL(table);
  auto result = empty_quantized(src.sizes(), at::kQUInt8, scale, zero_point, format);
  kernels::table_u8(bytes(src), mutable_bytes(result), src.numel(),
                    entries.const_data_ptr<uint8_t>());
  return result;
}

TORCH_LIBRARY_FRAGMENT(cpuaccel, m) {
  m.def("quantized_table(Tensor qx, Tensor table, float scale, int zero_point) -> Tensor");
}

TORCH_LIBRARY_IMPL(cpuaccel, QuantizedCPU, m) { m.impl("quantized_table", quantized_table); }

}  // namespace
}  // namespace cpuaccel::ops
