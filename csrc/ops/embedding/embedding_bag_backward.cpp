// Gradients of EmbeddingBag.
//
// By the table, the gradient of sum and mean is a product with the transposed bags (family spmm):
//
//   grad_weight[n] = sum over the indices i that are n of weights[i] * grad[bag of i]
//
// A mean divides each row of grad by the number of its bag's indices; scale_grad_by_freq divides
// row n by the number of indices that are n. torch 2.13 divides by the number of another index.
// The gradient by the weights is a sampled product (family sddmm).

#include <ATen/EmptyTensor.h>
#include <ATen/ops/_embedding_bag_dense_backward.h>
#include <ATen/ops/_embedding_bag_sparse_backward.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cstdint>
#include <optional>

#include "base/parallel.h"
#include "kernels/csr/transpose.h"
#include "kernels/sddmm/sddmm.h"
#include "kernels/spmm/spmm.h"
#include "ops/data_type.h"
#include "ops/embedding/bags.h"
#include "ops/embedding/mode.h"
#include "ops/gnn/rows.h"
#include "ops/kernel_call.h"
#include "ops/override.h"
#include "ops/reasons.h"
#include "ops/torch_compat/cpu_kernels.h"
#include "ops/torch_kernel.h"

namespace cpuaccel::ops {
namespace {

using OptionalTensor = std::optional<at::Tensor>;

constexpr const char* kBagBackward = "embedding_bag_backward";
constexpr const char* kWeightsBackward = "embedding_bag_weights_backward";

const at::Tensor& or_undefined(const OptionalTensor& tensor) {
  static const at::Tensor kUndefined;
  return tensor.has_value() ? *tensor : kUndefined;
}

// A list of indices beside one of the same type.
bool lists(const at::Tensor& indices, const at::Tensor& others) {
  return strided_on_cpu(indices) && strided_on_cpu(others) && indices.dim() == 1 &&
         others.dim() == 1 && is_index_type(indices.scalar_type()) &&
         others.scalar_type() == indices.scalar_type();
}

const char* grad_fallback_reason(const at::Tensor& grad) {
  return !strided_on_cpu(grad)                ? reasons::kLayout
         : grad.dim() != 2                    ? reasons::kShape
         : !is_graph_type(grad.scalar_type()) ? reasons::kDtype
                                              : nullptr;
}

// One tensor that holds three lists of numbers, and the transposed matrix in them.
struct Columns {
  at::Tensor numbers;
  kernels::CsrColumns lists;
  kernels::Csr csr;
};

// nullopt if a column is out of range.
std::optional<Columns> columns_of(const kernels::Csr& csr) {
  const bool wide = !kernels::fits_int32(std::max({csr.M, csr.N, csr.nnz}));
  Columns columns;
  columns.numbers = at::detail::empty_cpu({csr.N + 1 + 2 * csr.nnz}, wide ? at::kLong : at::kInt);
  with_index_type(wide, [&]<typename Index>(Index*) {
    auto* at = columns.numbers.mutable_data_ptr<Index>();
    columns.lists = {at, at + csr.N + 1, at + csr.N + 1 + csr.nnz, wide};
  });
  if (kernels::csr_transpose(csr, columns.lists) != kernels::CsrFault::none) {
    return std::nullopt;
  }
  columns.csr = {csr.N, csr.M, csr.nnz, columns.lists.ccol, columns.lists.row, wide};
  return columns;
}

at::Tensor gradient_of_sums(const Bags& bags, const at::Tensor& given_grad, bool mean,
                            bool scale_grad_by_freq) {
  const at::Tensor grad = with_rows(given_grad);
  const auto type = grad.scalar_type();
  const int64_t N = bags.csr.N, K = grad.size(1);
  const auto columns = columns_of(bags.csr);
  if (!columns) {
    check_columns(bags, N, kBagBackward);
  }
  at::Tensor values;
  if (mean || bags.values.defined()) {
    values = at::detail::empty_cpu({bags.csr.nnz}, type == at::kDouble ? at::kDouble : at::kFloat);
    kernels::csr_columns_values(bags.csr, columns->lists,
                                bags.values.defined() ? bags.values.const_data_ptr() : nullptr,
                                data_type(type), mean, values.mutable_data_ptr());
  }
  at::Tensor result = at::detail::empty_cpu({N, K}, type);
  kernels::SpmmCall call;
  call.csr = columns->csr;
  call.K = K;
  call.type = data_type(type);
  call.reduce = scale_grad_by_freq ? kernels::Reduce::mean : kernels::Reduce::sum;
  call.values = values.defined() ? values.const_data_ptr() : nullptr;
  call.wide_values = type != at::kDouble;
  call.src = grad.const_data_ptr();
  call.src_stride = rows_of(grad)->stride;
  call.dst = result.mutable_data_ptr();
  const auto fault = kernels::spmm(call);
  TORCH_INTERNAL_ASSERT(fault == kernels::CsrFault::none);
  return result;
}

// Adds each number of grad to its column of the row that max_indices has for it. A thread owns
// columns, so that no two add to the same number.
template <typename Number, typename Index>
void add_to_maxima(const at::Tensor& grad, const at::Tensor& bag_size,
                   const at::Tensor& max_indices, const at::Tensor& to) {
  const int64_t M = grad.size(0), K = grad.size(1);
  const auto* src = grad.const_data_ptr<Number>();
  const auto* rows = max_indices.const_data_ptr<Index>();
  const auto* sizes = bag_size.const_data_ptr<Index>();
  auto* dst = to.mutable_data_ptr<Number>();
  constexpr int64_t kLine = 64 / sizeof(Number), kGrain = 1 << 14;
  parallel_for(0, (K + kLine - 1) / kLine, kGrain / (M * kLine + 1) + 1,
               [&](int64_t first, int64_t last) {
                 const int64_t end = std::min(K, last * kLine);
                 for (int64_t m = 0; m < M; ++m) {
                   if (sizes[m] == 0) {
                     continue;
                   }
                   for (int64_t k = first * kLine; k < end; ++k) {
                     dst[rows[m * K + k] * K + k] += src[m * K + k];
                   }
                 }
               });
}

at::Tensor gradient_of_maxima(const at::Tensor& given_grad, const at::Tensor& bag_size,
                              const at::Tensor& max_indices, int64_t N) {
  const at::Tensor grad = given_grad.contiguous();
  const at::Tensor sizes = bag_size.contiguous(), rows = max_indices.contiguous();
  at::Tensor result = at::zeros({N, grad.size(1)}, grad.options());
  if (N == 0) {
    return result;
  }
  TORCH_CHECK(numbers_within(rows, 0, N), kBagBackward,
              ": expected maximum_indices to be at least 0 and less than ", N);
  const bool wide = rows.scalar_type() == at::kLong;
  with_index_type(wide, [&]<typename Index>(Index*) {
    grad.scalar_type() == at::kFloat ? add_to_maxima<float, Index>(grad, sizes, rows, result)
                                     : add_to_maxima<double, Index>(grad, sizes, rows, result);
  });
  return result;
}

const char* max_fallback_reason(const at::Tensor& grad, const at::Tensor& bag_size,
                                const at::Tensor& max_indices) {
  if (grad.scalar_type() != at::kFloat && grad.scalar_type() != at::kDouble) {
    return reasons::kDtype;
  }
  return strided_on_cpu(bag_size) && strided_on_cpu(max_indices) && bag_size.dim() == 1 &&
                 is_index_type(bag_size.scalar_type()) &&
                 bag_size.scalar_type() == max_indices.scalar_type() &&
                 bag_size.numel() == grad.size(0) && max_indices.sizes() == grad.sizes()
             ? nullptr
             : reasons::kInvalidArguments;
}

const char* sum_fallback_reason(const at::Tensor& grad, const at::Tensor& indices,
                                const at::Tensor& offset2bag, const at::Tensor& weights) {
  if (!lists(indices, offset2bag) || indices.numel() != offset2bag.numel()) {
    return reasons::kInvalidArguments;
  }
  return !weights.defined() ||
                 (strided_on_cpu(weights) && weights.dim() == 1 &&
                  weights.numel() == indices.numel() && weights.scalar_type() == grad.scalar_type())
             ? nullptr
             : reasons::kInvalidArguments;
}

template <OpName>
at::Tensor dense_backward(const at::Tensor& grad, const at::Tensor& indices,
                          const at::Tensor& offset2bag, const at::Tensor& bag_size,
                          const at::Tensor& max_indices, int64_t num_weights,
                          bool scale_grad_by_freq, int64_t mode,
                          const OptionalTensor& sample_weights, int64_t padding_idx) {
  check_mode(mode, kBagBackward);
  const at::Tensor& weights = or_undefined(sample_weights);
  const char* reason = grad_fallback_reason(grad);
  if (reason == nullptr && num_weights < 0) {
    reason = reasons::kInvalidArguments;
  }
  if (reason == nullptr) {
    reason = mode == kModeMax ? max_fallback_reason(grad, bag_size, max_indices)
                              : sum_fallback_reason(grad, indices, offset2bag, weights);
  }
  if (reason == nullptr && mode == kModeMax) {
    CPUACCEL_KERNEL_CALL(embedding_bag_backward);
    return gradient_of_maxima(grad, bag_size, max_indices, num_weights);
  }
  if (reason == nullptr) {
    Bags bags = bags_of_offset2bag(indices.contiguous(), offset2bag.contiguous(), grad.size(0),
                                   padding_idx, weights);
    if (bags.crow.defined()) {
      CPUACCEL_KERNEL_CALL(embedding_bag_backward);
      bags.csr.N = num_weights;
      return gradient_of_sums(bags, grad, mode == kModeMean, scale_grad_by_freq);
    }
    // torch's kernel checks neither.
    TORCH_CHECK(numbers_within(indices, 0, num_weights), kBagBackward,
                ": expected each of indices to be at least 0 and less than ", num_weights);
    TORCH_CHECK(numbers_within(offset2bag, 0, grad.size(0)), kBagBackward,
                ": expected each of offset2bag to be at least 0 and less than ", grad.size(0));
    reason = "offset2bag does not ascend";
  }
  report_fallback(kBagBackward, reason);
  return at::cpu::_embedding_bag_dense_backward(grad, indices, offset2bag, bag_size, max_indices,
                                                num_weights, scale_grad_by_freq, mode,
                                                sample_weights, padding_idx);
}

// Calls the op for the kind of gradient, with an offset2bag. Where torch's kernel counts bags by
// index_add and cumsum, and takes indices after the last bag for one bag more, this fills runs.
template <OpName>
at::Tensor backward(const at::Tensor& grad, const at::Tensor& given_indices,
                    const at::Tensor& given_offsets, const at::Tensor& offset2bag,
                    const at::Tensor& bag_size, const at::Tensor& max_indices, int64_t num_weights,
                    bool scale_grad_by_freq, int64_t mode, bool sparse,
                    const OptionalTensor& sample_weights, int64_t padding_idx) {
  const char* reason = grad_fallback_reason(grad);
  if (reason == nullptr &&
      !(lists(given_indices, given_indices) && lists(given_offsets, given_offsets) &&
        (given_offsets.numel() == grad.size(0) || given_offsets.numel() == grad.size(0) + 1))) {
    reason = reasons::kInvalidArguments;
  }
  if (reason != nullptr) {
    report_fallback(kBagBackward, reason);
    return at::cpu::_embedding_bag_backward(grad, given_indices, given_offsets, offset2bag,
                                            bag_size, max_indices, num_weights, scale_grad_by_freq,
                                            mode, sparse, sample_weights, padding_idx);
  }
  const BagIndices bags(given_indices, given_offsets, given_offsets.numel() != grad.size(0));
  TORCH_CHECK(bags.begin_and_end(), kBagBackward, ": expected offsets to begin with 0 and to end ",
              "with at most ", bags.count, ", the number of indices");
  bags.check_ascending(kBagBackward);
  const bool known =
      offset2bag.numel() == bags.count && offset2bag.scalar_type() == bags.indices.scalar_type();
  at::Tensor bag = known ? offset2bag : bag_of_each(bags);
  if (!sparse) {
    return at::_embedding_bag_dense_backward(grad, bags.indices, bag, bag_size, max_indices,
                                             num_weights, scale_grad_by_freq, mode, sample_weights,
                                             padding_idx);
  }
  CPUACCEL_KERNEL_CALL(embedding_bag_backward);
  at::Tensor indices = bags.indices;
  OptionalTensor weights = sample_weights;
  if (const int64_t count = bags.in_bags(); count < bags.count) {
    indices = indices.narrow(0, 0, count);
    bag = bag.narrow(0, 0, count);
    if (or_undefined(weights).defined()) {
      weights = weights->narrow(0, 0, count);
    }
  }
  return at::_embedding_bag_sparse_backward(grad, indices, bags.offsets, bag, bag_size, num_weights,
                                            scale_grad_by_freq, mode, weights, padding_idx);
}

// The reason for a fallback to torch, or null.
const char* weights_fallback_reason(const at::Tensor& grad, const at::Tensor& weight,
                                    const at::Tensor& indices, const at::Tensor& offsets,
                                    int64_t mode) {
  if (const char* reason = grad_fallback_reason(grad)) {
    return reason;
  }
  if (!strided_on_cpu(weight)) {
    return reasons::kLayout;
  }
  if (mode != kModeSum || weight.dim() != 2 || weight.scalar_type() != grad.scalar_type() ||
      weight.size(1) != grad.size(1) || !lists(indices, indices) || !lists(offsets, offsets) ||
      (offsets.numel() != grad.size(0) && offsets.numel() != grad.size(0) + 1)) {
    return reasons::kInvalidArguments;
  }
  return nullptr;
}

template <OpName>
at::Tensor weights_backward(const at::Tensor& given_grad, const at::Tensor& weight,
                            const at::Tensor& indices, const at::Tensor& offsets,
                            const at::Tensor& offset2bag, int64_t mode, int64_t padding_idx) {
  if (const char* reason = weights_fallback_reason(given_grad, weight, indices, offsets, mode)) {
    report_fallback(kWeightsBackward, reason);
    return at::cpu::_embedding_bag_per_sample_weights_backward(given_grad, weight, indices, offsets,
                                                               offset2bag, mode, padding_idx);
  }
  CPUACCEL_KERNEL_CALL(embedding_bag_weights_backward);
  const BagIndices from(indices, offsets, offsets.numel() != given_grad.size(0));
  TORCH_CHECK(from.begin_and_end(), kWeightsBackward, ": expected offsets to begin with 0 and to ",
              "end with at most ", from.count, ", the number of indices");
  from.check_ascending(kWeightsBackward);
  Bags bags = bags_of(from, -1, {});
  const at::Tensor grad = with_rows(given_grad), table = with_rows(weight);
  at::Tensor result = at::detail::empty_cpu({from.count}, grad.scalar_type());
  bags.csr.N = table.size(0);
  // The sampled product writes the entries of bags only.
  if (bags.csr.nnz < from.count || grad.size(1) == 0) {
    result.zero_();
  }
  kernels::SddmmCall call;
  call.csr = bags.csr;
  call.K = grad.size(1);
  call.type = data_type(grad.scalar_type());
  call.a = grad.const_data_ptr();
  call.b = table.const_data_ptr();
  call.a_stride = rows_of(grad)->stride;
  call.b_stride = rows_of(table)->stride;
  call.dst = result.mutable_data_ptr();
  if (bags.csr.nnz > 0 && (call.K == 0 || kernels::sddmm(call) != kernels::CsrFault::none)) {
    check_columns(bags, bags.csr.N, kWeightsBackward);
  }
  if (padding_idx >= 0) {
    result.masked_fill_(from.indices.eq(padding_idx), 0);
  }
  return result;
}

CPUACCEL_OVERRIDES{
    CPUACCEL_OVERRIDE("aten::_embedding_bag_backward", c10::DispatchKey::CPU, backward),
    CPUACCEL_OVERRIDE("aten::_embedding_bag_dense_backward", c10::DispatchKey::CPU, dense_backward),
    CPUACCEL_OVERRIDE("aten::_embedding_bag_per_sample_weights_backward", c10::DispatchKey::CPU,
                      weights_backward),
};

}  // namespace

}  // namespace cpuaccel::ops
