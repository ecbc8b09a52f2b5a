#include "ops/gnn/rows.h"

#include <algorithm>
#include <utility>

#include "kernels/scatter/scatter.h"

namespace cpuaccel::ops {

std::optional<Rows> rows_of(const at::Tensor& tensor) {
  Rows rows{1, 0};
  for (int64_t d = tensor.dim() - 1; d > 0; --d) {
    if (tensor.size(d) != 1 && tensor.stride(d) != rows.columns) {
      return std::nullopt;
    }
    rows.columns *= tensor.size(d);
  }
  rows.stride = tensor.size(0) > 1 ? tensor.stride(0) : rows.columns;
  return rows;
}

at::Tensor with_rows(const at::Tensor& tensor) {
  return rows_of(tensor) ? tensor : tensor.contiguous();
}

bool same_rows(const at::Tensor& a, const at::Tensor& b) {
  return std::ranges::equal(a.sizes().slice(1), b.sizes().slice(1));
}

bool RowNumbers::within(int64_t low, int64_t high) const {
  return kernels::index_within(data, wide, count, low, high);
}

RowNumbers all_numbers(const at::Tensor& index) {
  RowNumbers numbers;
  const bool dense = index.is_contiguous();
  if (!dense) {
    numbers.copy = index.contiguous();
  }
  numbers.data = (dense ? index : numbers.copy).const_data_ptr();
  numbers.count = index.numel();
  numbers.wide = index.scalar_type() == at::kLong;
  return numbers;
}

std::optional<RowNumbers> row_numbers(const at::Tensor& index) {
  for (int64_t d = 1; d < index.dim(); ++d) {
    if (index.size(d) != 1 && index.stride(d) != 0) {
      return std::nullopt;
    }
  }
  if (index.size(0) > 1 && index.stride(0) != 1) {
    return all_numbers(row_numbers_view(index));
  }
  RowNumbers numbers;
  numbers.data = index.const_data_ptr();
  numbers.count = index.size(0);
  numbers.wide = index.scalar_type() == at::kLong;
  return numbers;
}

at::Tensor row_numbers_view(const at::Tensor& index) {
  at::Tensor numbers = index;
  while (numbers.dim() > 1) {
    numbers = numbers.select(-1, 0);
  }
  return numbers;
}

std::optional<at::Tensor> index_of_rows(const at::Tensor& x, const OptionalTensors& indices) {
  std::optional<at::Tensor> found;
  if (static_cast<int64_t>(indices.size()) > x.dim()) {
    return found;
  }
  for (size_t i = 0; i < indices.size(); ++i) {
    std::optional<at::Tensor> each = indices.get(i);
    const bool given = each && each->defined();
    if (given != (i == 0)) {
      return std::nullopt;
    }
    if (given) {
      found = std::move(each);
    }
  }
  return found;
}

bool is_index_type(at::ScalarType type) { return type == at::kInt || type == at::kLong; }

bool numbers_within(const at::Tensor& numbers, int64_t low, int64_t high) {
  return kernels::index_within(numbers.const_data_ptr(), numbers.scalar_type() == at::kLong,
                               numbers.numel(), low, high);
}

bool strided_on_cpu(const at::Tensor& tensor) {
  return tensor.layout() == at::kStrided && tensor.device().is_cpu();
}

bool is_row_dimension(const at::Tensor& tensor, int64_t dim) {
  return tensor.dim() > 0 && (dim == 0 || dim == -tensor.dim());
}

}  // namespace cpuaccel::ops
