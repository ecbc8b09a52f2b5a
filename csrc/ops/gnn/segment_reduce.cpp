// segment_reduce along dimension 0 with one list of lengths or offsets, and its gradient.
//
// The ties of a segment's extreme share its gradient. torch 2.13 divides the gradient among them
// only where it is positive, which is not a derivative; cpuaccel always divides it.

#include <ATen/EmptyTensor.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <string_view>
#include <vector>

#include "kernels/gather/gather.h"
#include "kernels/scatter/scatter.h"
#include "kernels/segment/few_columns.h"
#include "kernels/segment/segment.h"
#include "ops/data_type.h"
#include "ops/gnn/csr.h"
#include "ops/gnn/reduction.h"
#include "ops/gnn/rows.h"
#include "ops/gnn/segment_check.h"
#include "ops/gnn/segment_gradient.h"
#include "ops/gnn/ties.h"
#include "ops/kernel_call.h"
#include "ops/override.h"
#include "ops/reasons.h"
#include "ops/torch_compat/cpu_kernels.h"
#include "ops/torch_kernel.h"

namespace cpuaccel::ops {
namespace {

using kernels::kFewSegmentColumns;
using kernels::Reduce;
using OptionalTensor = std::optional<at::Tensor>;
using OptionalScalar = std::optional<at::Scalar>;

bool is_list(const at::Tensor& list) {
  return strided_on_cpu(list) && list.dim() == 1 && list.numel() > 0 &&
         is_index_type(list.scalar_type());
}

// The offsets of segments of rows [0, E).
struct Segments {
  int64_t E = 0;  // number of rows
  std::vector<int64_t> offsets;

  int64_t count() const { return static_cast<int64_t>(offsets.size()) - 1; }
  bool cover_all() const { return offsets.front() == 0 && offsets.back() == E; }
};

template <typename Index>
const char* from_offsets(const Index* from, int64_t count, Segments& to) {
  to.offsets.assign(from, from + count);
  for (const int64_t offset : to.offsets) {
    // torch would read out of bounds.
    TORCH_CHECK(offset >= 0 && offset <= to.E,
                "segment_reduce: expected offsets to be at least 0 and at most ", to.E,
                ", the number of rows, but got ", offset);
  }
  return std::ranges::is_sorted(to.offsets) ? nullptr : "offsets do not ascend";
}

template <typename Index>
const char* from_lengths(const Index* from, int64_t count, bool unsafe, Segments& to) {
  to.offsets.assign(1, 0);
  to.offsets.reserve(static_cast<size_t>(count) + 1);
  for (int64_t n = 0; n < count; ++n) {
    const int64_t begin = to.offsets.back();
    const bool fits = from[n] >= 0 && from[n] <= to.E - begin;
    TORCH_CHECK(fits || !unsafe, "segment_reduce: expected lengths to be at least 0 and to sum to ",
                "at most ", to.E, ", the number of rows");
    if (!fits) {
      return "lengths do not sum to the number of rows";
    }
    to.offsets.push_back(begin + from[n]);
  }
  return unsafe || to.cover_all() ? nullptr : "lengths do not sum to the number of rows";
}

// The reason for a fallback to torch; or null, with `to` set.
const char* segment_fallback_reason(const at::Tensor& data, const OptionalTensor& lengths,
                                    const OptionalTensor& offsets, int64_t axis, bool unsafe,
                                    Segments& to) {
  if (!strided_on_cpu(data)) {
    return reasons::kLayout;
  }
  if (!is_row_dimension(data, axis)) {
    return reasons::kDimension;
  }
  if (data.scalar_type() != at::kFloat && data.scalar_type() != at::kDouble) {
    return reasons::kDtype;
  }
  if (data.numel() == 0) {
    return reasons::kEmpty;
  }
  if (!given(lengths) && !given(offsets)) {
    return "unsupported lengths or offsets";
  }
  const at::Tensor& from = given(offsets) ? *offsets : *lengths;
  if (!is_list(from)) {
    return "unsupported lengths or offsets";
  }
  const auto list = from.contiguous();
  const int64_t count = list.numel();
  const bool wide = list.scalar_type() == at::kLong;
  to.E = data.size(0);
  if (given(offsets)) {
    return wide ? from_offsets(list.const_data_ptr<int64_t>(), count, to)
                : from_offsets(list.const_data_ptr<int32_t>(), count, to);
  }
  return wide ? from_lengths(list.const_data_ptr<int64_t>(), count, unsafe, to)
              : from_lengths(list.const_data_ptr<int32_t>(), count, unsafe, to);
}

at::Tensor run(const at::Tensor& data, Reduce reduce, Segments& segments,
               const OptionalScalar& initial) {
  CPUACCEL_KERNEL_CALL(segment_reduce);
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  at::DimVector sizes(data.sizes());
  sizes[0] = segments.count();
  at::Tensor out = at::detail::empty_cpu(sizes, data.scalar_type());
  const auto src = with_rows(data);
  const auto rows = rows_of(src);
  const int64_t first = segments.offsets.front();
  for (auto& offset : segments.offsets) {
    offset -= first;
  }
  kernels::SegmentCall call;
  call.E = segments.offsets.back();
  call.N = segments.count();
  call.K = rows->columns;
  call.offsets = segments.offsets.data();
  call.type = data_type(src.scalar_type());
  call.reduce = reduce;
  call.start = initial                  ? initial->toDouble()
               : reduce == Reduce::amax ? -kInfinity
               : reduce == Reduce::amin ? kInfinity
                                        : 0;
  call.empty =
      reduce == Reduce::mean && !initial ? std::numeric_limits<double>::quiet_NaN() : call.start;
  call.src = static_cast<const std::byte*>(src.const_data_ptr()) +
             first * rows->stride * static_cast<int64_t>(src.itemsize());
  call.src_stride = rows->stride;
  call.dst = out.mutable_data_ptr();
  TORCH_INTERNAL_ASSERT(kernels::segment(call));
  return out;
}

template <OpName>
at::Tensor segment_reduce(const at::Tensor& data, std::string_view reduce,
                          const OptionalTensor& lengths, const OptionalTensor& indices,
                          const OptionalTensor& offsets, int64_t axis, bool unsafe,
                          const OptionalScalar& initial) {
  Segments segments;
  const auto kind = reduce_of(reduce, "max", "min");
  const char* reason =
      !kind            ? reasons::kReduction
      : given(indices) ? reasons::kIndices
      : initial && (initial->isComplex() || initial->isSymbolic())
          ? "initial is complex or symbolic"
          : segment_fallback_reason(data, lengths, offsets, axis, unsafe, segments);
  if (reason == nullptr && segments.count() == 0) {
    reason = reasons::kEmpty;
  }
  if (reason == nullptr) {
    return run(data, *kind, segments, initial);
  }
  report_fallback(op_name(Op::segment_reduce), reason);
  check_segments(data, lengths, offsets, axis, unsafe);
  return at::cpu::segment_reduce(data, reduce, lengths, indices, offsets, axis, unsafe, initial);
}

std::vector<int64_t> segment_numbers(const Segments& segments) {
  std::vector<int64_t> numbers(static_cast<size_t>(segments.E));
  for (int64_t n = 0; n < segments.count(); ++n) {
    const auto at = static_cast<size_t>(n);
    std::fill(numbers.begin() + segments.offsets[at], numbers.begin() + segments.offsets[at + 1],
              n);
  }
  return numbers;
}

// Copies to each row the row of its segment.
void spread(const std::vector<int64_t>& numbers, const at::Tensor& from, const at::Tensor& to) {
  kernels::GatherCall copy;
  copy.E = to.size(0);
  copy.N = from.size(0);
  copy.index = numbers.data();
  copy.row_bytes = static_cast<int64_t>(to.nbytes()) / to.size(0);
  copy.src = from.const_data_ptr();
  copy.src_stride = copy.row_bytes;
  copy.dst = to.mutable_data_ptr();
  kernels::gather(copy);
}

at::Tensor lengths_of(const Segments& segments, const at::Tensor& like) {
  at::DimVector sizes(static_cast<size_t>(like.dim()), 1);
  sizes[0] = segments.count();
  at::Tensor lengths = at::detail::empty_cpu(sizes, at::kLong);
  auto* to = lengths.mutable_data_ptr<int64_t>();
  for (size_t n = 0; n + 1 < segments.offsets.size(); ++n) {
    to[n] = segments.offsets[n + 1] - segments.offsets[n];
  }
  return lengths.to(like.scalar_type());
}

void share(const std::vector<int64_t>& numbers, const at::Tensor& grad, const at::Tensor& output,
           const at::Tensor& data, const at::Tensor& to) {
  const auto src = with_rows(data);
  const auto value = output.contiguous();
  const auto ties = at::zeros(value.sizes(), value.options());
  auto count = ties_call(src, value);
  count.index = numbers.data();
  count.dst = ties.mutable_data_ptr();
  count.nan_ties = 1;
  kernels::scatter(count);
  // There may be no tie, if the extreme is `initial`.
  const auto shares = (grad / ties.clamp_min(1)).contiguous();
  auto call = scatter_amax_grad_call(count, shares, to);
  call.zeroes = true;
  kernels::scatter_amax_grad(call);
}

template <typename Number>
void by_segment(Reduce reduce, const Segments& segments, const at::Tensor& grad,
                const at::Tensor& output, const at::Tensor& data, const at::Tensor& to) {
  const auto src = with_rows(data);
  const auto dense_grad = grad.contiguous(), dense_output = output.contiguous();
  const auto rows = rows_of(src);
  const SegmentGradient<Number> gradient{reduce,
                                         segments.offsets,
                                         rows->columns,
                                         rows->stride,
                                         dense_grad.const_data_ptr<Number>(),
                                         dense_output.const_data_ptr<Number>(),
                                         src.const_data_ptr<Number>(),
                                         to.mutable_data_ptr<Number>()};
  gradient.run();
}

template <OpName>
at::Tensor segment_reduce_backward(const at::Tensor& grad, const at::Tensor& output,
                                   const at::Tensor& data, std::string_view reduce,
                                   const OptionalTensor& lengths, const OptionalTensor& offsets,
                                   int64_t axis, const OptionalScalar& initial) {
  Segments segments;
  const auto kind = reduce_of(reduce, "max", "min");
  const char* reason = kind ? segment_fallback_reason(data, lengths, offsets, axis, false, segments)
                            : reasons::kReduction;
  if (reason == nullptr && !segments.cover_all()) {
    reason = "segments do not cover all rows";
  }
  if (reason == nullptr &&
      (grad.sizes() != output.sizes() || grad.dim() != data.dim() || !same_rows(grad, data) ||
       grad.size(0) != segments.count() || grad.scalar_type() != data.scalar_type() ||
       output.scalar_type() != data.scalar_type() || !strided_on_cpu(grad) ||
       !strided_on_cpu(output))) {
    reason = reasons::kGradient;
  }
  if (reason != nullptr) {
    report_fallback(op_name(Op::segment_reduce_backward), reason);
    check_segments(data, lengths, offsets, axis, true);
    check_segment_results(grad, output, data, lengths, offsets);
    return at::cpu::_segment_reduce_backward(grad, output, data, reduce, lengths, offsets, axis,
                                             initial);
  }
  CPUACCEL_KERNEL_CALL(segment_reduce_backward);
  at::Tensor result = at::detail::empty_cpu(data.sizes(), data.scalar_type());
  if (data.numel() <= kMostGradientNumbers || data.numel() <= kFewSegmentColumns * data.size(0)) {
    const auto run = data.scalar_type() == at::kFloat ? by_segment<float> : by_segment<double>;
    run(*kind, segments, grad, output, data, result);
    return result;
  }
  const auto numbers = segment_numbers(segments);
  switch (*kind) {
    case Reduce::sum:
      spread(numbers, grad.contiguous(), result);
      break;
    case Reduce::mean:
      spread(numbers, (grad / lengths_of(segments, grad)).contiguous(), result);
      break;
    default:
      share(numbers, grad, output, data, result);
  }
  return result;
}

CPUACCEL_OVERRIDES{
    CPUACCEL_OVERRIDE("aten::segment_reduce", c10::DispatchKey::CPU, segment_reduce),
    CPUACCEL_OVERRIDE("aten::_segment_reduce_backward", c10::DispatchKey::CPU,
                      segment_reduce_backward),
};

}  // namespace

}  // namespace cpuaccel::ops
