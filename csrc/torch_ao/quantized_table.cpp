#include "torch_ao/quantized_table.h"

#include <c10/util/Exception.h>
#include <torch/library.h>

#include <cstring>

#include "base/parallel.h"
#include "kernels/lookup_table/lookup_table.h"
#include "torch_ao/names.h"
#include "torch_ao/pixels.h"
#include "torch_ao/quantized_checks.h"
#include "torch_ao/quint8.h"

namespace cpuaccel::torch_ao {
namespace {

constexpr auto kQuantizedTable = "cpuaccel::quantized_table";
// Bytes of a block of rows, small enough to stay in the L1 cache for the lookup.
constexpr int64_t kBlock = 8192;
constexpr int64_t kGrain = 65536;

void look_up_slice(const at::Tensor& qx, int64_t pitch, uint8_t* dst, const uint8_t* table) {
  const auto* src = bytes(qx);
  const int64_t C = qx.size(1);
  const int64_t rows = qx.numel() / C;
  const int64_t block = C < kBlock ? kBlock / C : 1;
  parallel_for(0, rows, C < kGrain ? kGrain / C : 1, [&](int64_t begin, int64_t end) {
    for (int64_t first = begin; first < end; first += block) {
      const int64_t count = end - first < block ? end - first : block;
      uint8_t* to = dst + first * C;
      for (int64_t row = 0; row < count; ++row) {
        std::memcpy(to + row * C, src + (first + row) * pitch, static_cast<size_t>(C));
      }
      kernels::lookup_table_u8(to, to, count * C, table);
    }
  });
}

}  // namespace

void check_table(const char* op, const at::Tensor& table) {
  TORCH_CHECK(table.defined() && table.device().is_cpu() && table.scalar_type() == at::kByte, op,
              ": expected table to be a CPU tensor of dtype Byte, but got ",
              table.defined() ? toString(table.scalar_type()) : "an undefined tensor");
  TORCH_CHECK(table.dim() == 1 && table.numel() == kernels::kTableEntries && table.is_contiguous(),
              op, ": expected table to have shape [", kernels::kTableEntries,
              "] and to be contiguous, but got shape ", table.sizes());
}

at::Tensor quantized_table(const at::Tensor& qx, const at::Tensor& table, double scale,
                           int64_t zero_point) {
  check_quint8(kQuantizedTable, "qx", qx);
  check_table(kQuantizedTable, table);
  check_output_quantizer(kQuantizedTable, scale, zero_point, "");
  CPUACCEL_KERNEL_CALL(table);
  const auto* entries = table.const_data_ptr<uint8_t>();
  const auto format = qx.suggest_memory_format();
  at::Tensor dst = empty_quint8(qx.sizes(), {scale, zero_point}, format);
  auto* to = mutable_bytes(dst);
  const auto pitch = pixel_pitch(qx);
  if (format == at::MemoryFormat::ChannelsLast && pitch && *pitch > qx.size(1)) {
    look_up_slice(qx, *pitch, to, entries);
  } else {
    const at::Tensor src = qx.contiguous(format);
    kernels::lookup_table_u8(bytes(src), to, src.numel(), entries);
  }
  return dst;
}

TORCH_LIBRARY_FRAGMENT(cpuaccel, library) {
  library.def("quantized_table(Tensor qx, Tensor table, float scale, int zero_point) -> Tensor");
}

TORCH_LIBRARY_IMPL(cpuaccel, QuantizedCPU, library) {
  library.impl("quantized_table", TORCH_FN(quantized_table));
}

}  // namespace cpuaccel::torch_ao
