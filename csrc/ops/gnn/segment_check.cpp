#include "ops/gnn/segment_check.h"

#include <algorithm>
#include <span>

#include "ops/gnn/rows.h"

namespace cpuaccel::ops {
namespace {

using OptionalTensor = std::optional<at::Tensor>;

void check_offsets(std::span<const int64_t> offsets, int64_t size) {
  const auto bad =
      std::ranges::find_if(offsets, [&](int64_t offset) { return offset < 0 || offset > size; });
  TORCH_CHECK(bad == offsets.end(),
              "segment_reduce: expected offsets to be at least 0 and at most ", size,
              ", the size of data along axis, but got ", *bad);
}

// Without `unsafe`, torch sums lengths modulo 2^64 and compares the sum with `size`.
void check_lengths(std::span<const int64_t> lengths, int64_t size, bool unsafe) {
  int64_t left = size;
  uint64_t sum = 0;
  bool negative = false, fits = true;
  for (const int64_t length : lengths) {
    sum += static_cast<uint64_t>(length);
    negative |= length < 0;
    fits = fits && length >= 0 && length <= left;
    left -= fits ? length : 0;
  }
  const bool torch_rejects = !unsafe && (negative || sum != static_cast<uint64_t>(size));
  TORCH_CHECK(fits || torch_rejects,
              "segment_reduce: expected lengths to be at least 0 and to sum to at most ", size,
              ", the size of data along axis");
}

}  // namespace

void check_segments(const at::Tensor& data, const OptionalTensor& lengths,
                    const OptionalTensor& offsets, int64_t axis, bool unsafe) {
  if (!given(lengths) && !given(offsets)) {
    return;
  }
  const at::Tensor& list = given(offsets) ? *offsets : *lengths;
  const char* name = given(offsets) ? "offsets" : "lengths";
  if (!strided_on_cpu(data) || !strided_on_cpu(list) || !is_index_type(list.scalar_type())) {
    return;
  }
  const int64_t along = axis < 0 ? axis + data.dim() : axis;
  if (list.dim() == 0 || along != list.dim() - 1 || list.dim() > data.dim()) {
    return;
  }
  const auto before = static_cast<size_t>(along);
  TORCH_CHECK(list.sizes().slice(0, before) == data.sizes().slice(0, before),
              "segment_reduce: expected the sizes of ", name, " before its last one to be ",
              data.sizes().slice(0, before), ", those of data before axis ", axis, ", but got ",
              list.sizes().slice(0, before));
  const int64_t count = list.size(along), size = data.size(along);
  if (count == 0) {
    TORCH_CHECK(!given(offsets),
                "segment_reduce: expected offsets to have at least one number along axis ", axis);
    return;
  }
  const at::Tensor numbers = list.to(at::kLong).contiguous();
  const auto* first = numbers.const_data_ptr<int64_t>();
  for (int64_t row = 0; row < numbers.numel() / count; ++row) {
    const std::span each(first + row * count, static_cast<size_t>(count));
    given(offsets) ? check_offsets(each, size) : check_lengths(each, size, unsafe);
  }
}

void check_segment_results(const at::Tensor& grad, const at::Tensor& output, const at::Tensor& data,
                           const OptionalTensor& lengths, const OptionalTensor& offsets) {
  if (!given(lengths) && !given(offsets)) {
    return;
  }
  const at::Tensor& list = given(offsets) ? *offsets : *lengths;
  if (list.dim() == 0 || list.dim() > data.dim()) {
    return;
  }
  at::DimVector sizes(data.sizes());
  const auto along = static_cast<size_t>(list.dim() - 1);
  sizes[along] = list.size(-1) - (given(offsets) ? 1 : 0);
  TORCH_CHECK(grad.sizes() == at::IntArrayRef(sizes) && output.sizes() == at::IntArrayRef(sizes),
              "_segment_reduce_backward: expected grad and output of shape ",
              at::IntArrayRef(sizes), ", but got ", grad.sizes(), " and ", output.sizes());
}

}  // namespace cpuaccel::ops
