// Tensors by their rows: what is at one place of dimension 0.
#pragma once

#include <ATen/core/List.h>
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

#include "ops/overlap.h"

namespace cpuaccel::ops {

// How a tensor's rows lie: each is `columns` elements side by side.
struct Rows {
  int64_t columns = 0, stride = 0;  // elements from row to row
};

// Of a tensor with a dimension; nothing if the elements of its rows are not side by side.
std::optional<Rows> rows_of(const at::Tensor& tensor);

// The tensor, or a dense copy of one that has no such rows.
at::Tensor with_rows(const at::Tensor& tensor);

// Whether two tensors of as many dimensions have rows of the same sizes.
bool same_rows(const at::Tensor& a, const at::Tensor& b);

bool is_index_type(at::ScalarType type);

// Indices of rows, one after the other. Valid as long as the index that they are of.
struct RowNumbers {
  const void* data = nullptr;
  int64_t count = 0;
  bool wide = true;  // int64, else int32
  at::Tensor kept;   // has them where the index has them not side by side

  bool within(int64_t low, int64_t high) const;  // whether each is in [low, high)
};

// Of an index that has one for each row, such as one expanded along its rows; nothing if there may
// be more than one. No view is made of an index whose numbers lie side by side: a view takes as
// long as a small call.
std::optional<RowNumbers> row_numbers(const at::Tensor& index);

// The same numbers as a view of one dimension.
at::Tensor row_numbers_view(const at::Tensor& index);

// All numbers of an index.
RowNumbers all_numbers(const at::Tensor& index);

using OptionalTensors = c10::List<std::optional<at::Tensor>>;

// The only one of the indices of x[...], if it is of dimension 0.
std::optional<at::Tensor> index_of_rows(const at::Tensor& x, const OptionalTensors& indices);

// Whether each of such numbers is in [low, high).
bool numbers_within(const at::Tensor& numbers, int64_t low, int64_t high);

bool strided_on_cpu(const at::Tensor& tensor);

// Whether `dim` names dimension 0 of a tensor that has one.
bool is_row_dimension(const at::Tensor& tensor, int64_t dim);

}  // namespace cpuaccel::ops
