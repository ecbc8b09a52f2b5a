// Checks the lengths and offsets of segment_reduce before torch's kernels, which trust them.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

namespace cpuaccel::ops {

inline bool given(const std::optional<at::Tensor>& tensor) {
  return tensor.has_value() && tensor->defined();
}

// Throws if torch's kernels would read or write outside of `data` with these arguments. Lengths and
// offsets may have several dimensions: the last one runs along `axis` of data, those before it are
// data's. Arguments that torch itself rejects pass.
void check_segments(const at::Tensor& data, const std::optional<at::Tensor>& lengths,
                    const std::optional<at::Tensor>& offsets, int64_t axis, bool unsafe);

// Throws unless `grad` and `output` have the shape that segment_reduce returns for these arguments.
void check_segment_results(const at::Tensor& grad, const at::Tensor& output, const at::Tensor& data,
                           const std::optional<at::Tensor>& lengths,
                           const std::optional<at::Tensor>& offsets);

}  // namespace cpuaccel::ops
