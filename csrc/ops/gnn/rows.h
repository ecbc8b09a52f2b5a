// Rows of tensors (slices along dimension 0) and the indices that select them.
#pragma once

#include <ATen/core/List.h>
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

#include "ops/overlap.h"

namespace cpuaccel::ops {

// The layout of a tensor's rows: each row is `columns` adjacent elements.
struct Rows {
  int64_t columns = 0, stride = 0;  // elements from row to row
};

// For a tensor of at least one dimension; nullopt if the elements of its rows are not adjacent.
std::optional<Rows> rows_of(const at::Tensor& tensor);

// The tensor, or a contiguous copy if it has no such rows.
at::Tensor with_rows(const at::Tensor& tensor);

// Whether two tensors with the same number of dimensions have rows of the same sizes.
bool same_rows(const at::Tensor& a, const at::Tensor& b);

bool is_index_type(at::ScalarType type);

// Row indices, side by side in memory. Valid as long as the index tensor.
struct RowNumbers {
  const void* data = nullptr;
  int64_t count = 0;
  bool wide = true;  // int64, else int32
  at::Tensor copy;   // used if they are not side by side in the index tensor

  bool within(int64_t low, int64_t high) const;  // whether each is in [low, high)
};

// The row indices of an index with one value for each row, such as one expanded along its rows;
// nullopt if a row may have more than one. If the values lie side by side, no view is made: a view
// takes as long as a small call.
std::optional<RowNumbers> row_numbers(const at::Tensor& index);

// The same indices as a 1-d view.
at::Tensor row_numbers_view(const at::Tensor& index);

// All values of an index.
RowNumbers all_numbers(const at::Tensor& index);

using OptionalTensors = c10::List<std::optional<at::Tensor>>;

// The index of x[index]: the only index given, along dimension 0. nullopt otherwise.
std::optional<at::Tensor> index_of_rows(const at::Tensor& x, const OptionalTensors& indices);

// Whether each of these int32 or int64 values is in [low, high).
bool numbers_within(const at::Tensor& numbers, int64_t low, int64_t high);

bool strided_on_cpu(const at::Tensor& tensor);

// Whether `dim` is dimension 0 of a tensor that has one.
bool is_row_dimension(const at::Tensor& tensor, int64_t dim);

}  // namespace cpuaccel::ops
