// cpuaccel::intx_embedding: rows of a table of integers that has scales for groups, as torchao's
// IntxUnpackedToInt8Tensor has them. Only the rows asked for are read.
//
//   result[..., k] = (codes[n,k] - zero_point[n,g]) * scale[n,g]
//   n = indices[...], g = k / (columns / groups)
//
// codes: int8, rows x columns. scale: floats, rows x groups. zero_point: of the same shape, int8 or
// floats, or none. indices: int64 or int32, of any shape and strides. dtype: float32, bfloat16 or
// float16, the type of the result. The bits are those of the row of torchao's dequantized table:
// codes minus zero points are rounded to dtype, and their products with scale.

#include <ATen/EmptyTensor.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/index_select.h>
#include <torch/library.h>

#include <algorithm>
#include <cstdint>
#include <optional>

#include "base/parallel.h"
#include "base/plugin.h"
#include "kernels/dequantize/dequantize.h"
#include "ops/data_type.h"
#include "ops/embedding/bags.h"
#include "ops/gnn/rows.h"
#include "ops/intx_linear.h"
#include "ops/kernel_call.h"
#include "ops/plain_tensor.h"
#include "ops/reasons.h"
#include "ops/torch_kernel.h"

namespace cpuaccel::ops {
namespace {

constexpr auto kIntxEmbedding = "cpuaccel::intx_embedding";

struct IntxTable {
  const at::Tensor& codes;
  const at::Tensor& scale;
  const std::optional<at::Tensor>& zero_point;

  int64_t rows() const { return codes.size(0); }
  int64_t columns() const { return codes.size(1); }
};

void check_arguments(const IntxTable& table, const at::Tensor& indices, at::ScalarType type) {
  check_codes(kIntxEmbedding, {table.codes, table.scale, table.zero_point, 8});
  TORCH_CHECK(is_index_type(indices.scalar_type()), kIntxEmbedding,
              ": expected indices to be int64 or int32, but got ", indices.scalar_type());
  TORCH_CHECK(is_gemm_type(type), kIntxEmbedding,
              ": expected dtype to be float32, bfloat16 or float16, but got ", type);
}

const char* fallback_reason(const IntxTable& table) {
  if (!plugin_on()) {
    return reasons::kOff;
  }
  if (!is_plain(table.codes) || !is_plain(table.scale) ||
      (table.zero_point && !is_plain(*table.zero_point))) {
    return reasons::kLayout;
  }
  if (!is_gemm_type(table.scale.scalar_type()) ||
      (table.zero_point && table.zero_point->scalar_type() != at::kChar)) {
    return "zero points that are floats, or a scale of another type";
  }
  return table.codes.is_contiguous() ? nullptr : reasons::kStrides;
}

// The rows by torch's ops.
at::Tensor rows_by_torch(const IntxTable& table, const at::Tensor& list, at::ScalarType type) {
  const int64_t count = list.numel(), groups = table.scale.size(1);
  at::Tensor values = at::index_select(table.codes, 0, list)
                          .to(type)
                          .reshape({count, groups, table.columns() / std::max<int64_t>(1, groups)});
  if (table.zero_point) {
    values = values - at::index_select(*table.zero_point, 0, list).to(type).unsqueeze(-1);
  }
  values = values * at::index_select(table.scale, 0, list).unsqueeze(-1);
  return values.reshape({count, table.columns()}).to(type);
}

// Reads the rows of an index list of one type, in float32: integers of nine bits are exact in each
// dtype, and a product of two such numbers is rounded once, here or when it becomes 16 bits.
template <typename Index>
at::Tensor rows_of_table(const IntxTable& table, const at::Tensor& list) {
  const int64_t count = list.numel(), columns = table.columns(), groups = table.scale.size(1);
  const int64_t group = columns / groups;
  const at::Tensor scales = at::index_select(table.scale, 0, list).to(at::kFloat);
  const at::Tensor zeros =
      table.zero_point ? at::index_select(*table.zero_point, 0, list) : at::Tensor();
  at::Tensor result = at::detail::empty_cpu({count, columns}, at::kFloat);
  const auto* index = list.const_data_ptr<Index>();
  const auto* codes = reinterpret_cast<const uint8_t*>(table.codes.const_data_ptr<int8_t>());
  const auto* scale = scales.const_data_ptr<float>();
  const auto* zero = zeros.defined() ? zeros.const_data_ptr<int8_t>() : nullptr;
  auto* dst = result.mutable_data_ptr<float>();
  auto* dequantize = kernels::first_usable(kernels::dequantize_kernels()).function;
  constexpr int64_t kGrain = 1 << 15, kLine = 64, kAhead = 8, kMostLines = 8;
  parallel_for(0, count, kGrain / columns + 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      if (i + kAhead < end) {
        const auto* next = codes + index[i + kAhead] * columns;
        for (int64_t at = 0; at < std::min(columns, kMostLines * kLine); at += kLine) {
          __builtin_prefetch(next + at);
        }
      }
      const int64_t row = index[i];
      for (int64_t g = 0; g < groups; ++g) {
        // int8 as uint8: with its sign bit flipped, and 128 more.
        dequantize(codes + row * columns + g * group, dst + i * columns + g * group, group,
                   scale[i * groups + g], 128 + (zero == nullptr ? 0 : zero[i * groups + g]), 0x80);
      }
    }
  });
  return result;
}

at::Tensor intx_embedding(const at::Tensor& codes, const at::Tensor& scale,
                          const std::optional<at::Tensor>& zero_point, const at::Tensor& indices,
                          at::ScalarType type) {
  const IntxTable table{codes, scale, zero_point};
  check_arguments(table, indices, type);
  const at::Tensor list = indices.reshape(-1).contiguous();
  TORCH_CHECK_INDEX(numbers_within(list, 0, table.rows()), "index out of range in self");
  at::DimVector sizes(indices.sizes());
  sizes.push_back(table.columns());
  const char* reason =
      list.numel() == 0 || codes.numel() == 0 ? reasons::kEmpty : fallback_reason(table);
  if (reason != nullptr) {
    report_fallback("intx_embedding", reason);
    return rows_by_torch(table, list, type).reshape(sizes);
  }
  CPUACCEL_KERNEL_CALL(intx_embedding);
  const at::Tensor rows = list.scalar_type() == at::kLong ? rows_of_table<int64_t>(table, list)
                                                          : rows_of_table<int32_t>(table, list);
  return rows.to(type).reshape(sizes);
}

TORCH_LIBRARY_FRAGMENT(cpuaccel, library) {
  library.def(
      "intx_embedding(Tensor codes, Tensor scale, Tensor? zero_point, Tensor indices, ScalarType "
      "dtype) -> Tensor");
}

TORCH_LIBRARY_IMPL(cpuaccel, CPU, library) { library.impl("intx_embedding", intx_embedding); }

}  // namespace

}  // namespace cpuaccel::ops
