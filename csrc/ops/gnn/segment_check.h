// Lengths and offsets of segments, checked before torch's kernels of segment_reduce, which trust
// them.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

namespace cpuaccel::ops {

// Throws if torch's kernels would read or write outside of `data` by these arguments. They may have
// several dimensions: the last one is along `axis` of data, those before it are data's. Arguments
// that torch refuses itself are left to it.
void check_segments(const at::Tensor& data, const std::optional<at::Tensor>& lengths,
                    const std::optional<at::Tensor>& offsets, int64_t axis, bool unsafe);

// Throws if one of `grad` and `output` is not what segment_reduce returns for these arguments.
void check_segment_results(const at::Tensor& grad, const at::Tensor& output, const at::Tensor& data,
                           const std::optional<at::Tensor>& lengths,
                           const std::optional<at::Tensor>& offsets);

}  // namespace cpuaccel::ops
