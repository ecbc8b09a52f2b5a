// _embedding_bag and _embedding_bag_forward_only, the ops of nn.EmbeddingBag: products of a sparse
// matrix, the bags, and the table of embeddings (family spmm).
//
// torch's kernels of sums without padding read rows at the speed of memory, so they compute those
// of more than a few numbers, and means of long bags of bf16 and f16.
// Offsets and indices that torch does not check are checked here.

#include <ATen/EmptyTensor.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <optional>
#include <tuple>

#include "base/parallel.h"
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

using kernels::Reduce;
using Results = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor>;

constexpr const char* kEmbeddingBag = "embedding_bag";
constexpr const char* kAsFast = "torch's kernel reads rows as fast";

struct BagCall {
  const at::Tensor& weight;
  const at::Tensor& indices;
  const at::Tensor& offsets;
  int64_t mode;
  const std::optional<at::Tensor>& sample_weights;
  bool include_last_offset;
  int64_t padding_idx;
  bool gradient;  // whether torch's op is _embedding_bag

  bool weighted() const { return sample_weights.has_value() && sample_weights->defined(); }
};

// Whether torch has a kernel for sums that reads each row once. It makes no offset2bag then.
bool has_fast_sum(const BagCall& call) {
  return is_gemm_type(call.weight.scalar_type()) && call.weight.stride(1) == 1 &&
         call.padding_idx < 0 && (!call.weighted() || call.sample_weights->stride(0) == 1);
}

// Arguments that torch's op rejects, or that have another type or layout. The offsets are not read.
const char* argument_fallback_reason(const BagCall& call) {
  if (!strided_on_cpu(call.weight) || !strided_on_cpu(call.indices) ||
      !strided_on_cpu(call.offsets)) {
    return reasons::kLayout;
  }
  if (call.weight.dim() != 2 || call.indices.dim() != 1 || call.offsets.dim() != 1) {
    return reasons::kShape;
  }
  if (!is_index_type(call.indices.scalar_type()) || !is_index_type(call.offsets.scalar_type()) ||
      !is_graph_type(call.weight.scalar_type())) {
    return reasons::kDtype;
  }
  if (call.weighted()) {
    const at::Tensor& weights = *call.sample_weights;
    if (call.mode != kModeSum || weights.scalar_type() != call.weight.scalar_type() ||
        weights.dim() != 1 || weights.numel() != call.indices.numel() || !strided_on_cpu(weights)) {
      return reasons::kInvalidArguments;
    }
  }
  return call.include_last_offset && call.offsets.numel() == 0 ? reasons::kInvalidArguments
                                                               : nullptr;
}

// Whether torch's kernel is as fast. Its means of bf16 and f16 take 0.7 to 0.9 of cpuaccel's time
// for bags of 20 to 100 indices, and 1.3 times as long for bags of 1 to 10, because torch counts
// the indices of bags by several ops.
bool is_as_fast(const BagCall& call, const BagIndices& bags) {
  constexpr int64_t kFewNumbers = 1 << 13;  // a call is then most of the time
  constexpr int64_t kLongBag = 16;
  const bool mean =
      call.mode == kModeMean && call.weight.itemsize() == 2 && bags.count >= kLongBag * bags.bags;
  return (call.mode == kModeSum || mean) && has_fast_sum(call) && call.weight.is_contiguous() &&
         bags.count * call.weight.size(1) > kFewNumbers;
}

// The reason for a fallback to torch, or null.
const char* bag_fallback_reason(const BagCall& call, const BagIndices& bags) {
  if (!bags.begin_and_end()) {
    return reasons::kInvalidArguments;
  }
  bags.check_ascending(kEmbeddingBag);
  // torch ends the process without bags, and its modes differ for indices in no bag.
  if (bags.bags == 0 || (call.mode != kModeSum && bags.in_bags() != bags.count)) {
    return nullptr;
  }
  if (is_as_fast(call, bags)) {
    return kAsFast;
  }
  return rows_of(call.weight) ? nullptr : reasons::kStrides;
}

// Turns the entries that a maximum was taken from into their indices; 0 for a bag without any. A
// bag of one index needs no entries.
template <typename Index>
void entries_to_indices(const Bags& bags, int64_t K, Index* arg) {
  const auto* crow = bags.csr.crow_as<Index>();
  const auto* col = bags.csr.col_as<Index>();
  constexpr int64_t kGrain = 1 << 14;
  parallel_for(0, bags.csr.M, kGrain / (K + 1) + 1, [&](int64_t begin, int64_t end) {
    for (int64_t m = begin; m < end; ++m) {
      const int64_t first = crow[m], count = crow[m + 1] - first;
      Index* at = arg + m * K;
      if (count <= 1) {
        std::fill_n(at, K, count == 0 ? Index{0} : col[first]);
        continue;
      }
      for (int64_t k = 0; k < K; ++k) {
        at[k] = col[at[k] < bags.csr.nnz ? at[k] : first];  // values of -inf leave no entry
      }
    }
  });
}

template <typename Index>
bool has_bag_of_several(const Bags& bags) {
  const auto* crow = bags.csr.crow_as<Index>();
  return std::adjacent_find(crow, crow + bags.csr.M + 1,
                            [](Index a, Index b) { return b - a > 1; }) != crow + bags.csr.M + 1;
}

bool needs_entries(const Bags& bags) {
  return bags.csr.wide ? has_bag_of_several<int64_t>(bags) : has_bag_of_several<int32_t>(bags);
}

at::Tensor reduced(const BagCall& call, Bags& bags, const at::Tensor& max_indices) {
  const at::Tensor table = with_rows(call.weight);
  const int64_t N = table.size(0), K = table.size(1);
  at::Tensor out = at::detail::empty_cpu({bags.csr.M, K}, table.scalar_type());
  bags.csr.N = N;
  kernels::SpmmCall product;
  product.csr = bags.csr;
  product.K = K;
  product.type = data_type(table.scalar_type());
  product.reduce = call.mode == kModeSum    ? Reduce::sum
                   : call.mode == kModeMean ? Reduce::mean
                                            : Reduce::amax;
  product.values = bags.values.defined() ? bags.values.const_data_ptr() : nullptr;
  product.src = table.const_data_ptr();
  product.src_stride = rows_of(table)->stride;
  product.dst = out.mutable_data_ptr();
  product.arg =
      max_indices.defined() && needs_entries(bags) ? max_indices.mutable_data_ptr() : nullptr;
  if (K == 0 || kernels::spmm(product) != kernels::CsrFault::none) {
    check_columns(bags, N, kEmbeddingBag);
  }
  if (max_indices.defined()) {
    with_index_type(bags.csr.wide, [&]<typename Index>(Index*) {
      entries_to_indices(bags, K, max_indices.mutable_data_ptr<Index>());
    });
  }
  return out;
}

at::Tensor zeros_list(int64_t count, at::ScalarType type) {
  at::Tensor list = at::detail::empty_cpu({count}, type);
  if (count > 0) {
    std::memset(list.mutable_data_ptr(), 0, list.nbytes());
  }
  return list;
}

at::Tensor sizes_of_bags(const Bags& bags, at::ScalarType type) {
  at::Tensor sizes = at::detail::empty_cpu({bags.csr.M}, type);
  with_index_type(bags.csr.wide, [&]<typename Index>(Index*) {
    const auto* crow = bags.csr.crow_as<Index>();
    auto* to = sizes.mutable_data_ptr<Index>();
    for (int64_t m = 0; m < bags.csr.M; ++m) {
      to[m] = crow[m + 1] - crow[m];
    }
  });
  return sizes;
}

Results run(const BagCall& call, const BagIndices& from) {
  CPUACCEL_KERNEL_CALL(embedding_bag);
  const auto type = from.indices.scalar_type();
  const bool sum = call.mode == kModeSum;
  Bags bags =
      bags_of(from, call.padding_idx, call.weighted() ? *call.sample_weights : at::Tensor());
  at::Tensor max_indices;
  if (call.mode == kModeMax) {
    max_indices = at::detail::empty_cpu({from.bags, call.weight.size(1)}, type);
  }
  at::Tensor out = reduced(call, bags, max_indices);
  at::Tensor offset2bag =
      sum && has_fast_sum(call) ? at::detail::empty_cpu({0}, type) : bag_of_each(from);
  // As torch's ops, which need no sizes for sums.
  const int64_t listed = sum && !call.gradient ? from.offsets.numel() : from.bags;
  at::Tensor sizes = sum ? zeros_list(listed, type) : sizes_of_bags(bags, type);
  if (!max_indices.defined()) {
    max_indices = sum ? zeros_list(listed, type) : sizes.clone();
  }
  return {std::move(out), std::move(offset2bag), std::move(sizes), std::move(max_indices)};
}

template <OpName kName, bool kGradient>
Results forward(const at::Tensor& weight, const at::Tensor& indices, const at::Tensor& offsets,
                bool scale_grad_by_freq, int64_t mode, bool sparse,
                const std::optional<at::Tensor>& sample_weights, bool include_last_offset,
                int64_t padding_idx) {
  check_mode(mode, kEmbeddingBag);
  const BagCall call{weight,      indices,  offsets, mode, sample_weights, include_last_offset,
                     padding_idx, kGradient};
  const char* reason = argument_fallback_reason(call);
  if (reason == nullptr) {
    const BagIndices bags(indices, offsets, include_last_offset);
    reason = bag_fallback_reason(call, bags);
    if (reason == nullptr) {
      return run(call, bags);
    }
  }
  report_fallback(kEmbeddingBag, reason);
  // torch would read past offset2bag.
  TORCH_CHECK(indices.dim() < 2 || mode != kModeMax, kEmbeddingBag,
              ": expected indices of one dimension for max, but got ", indices.dim());
  constexpr auto* kTorch =
      kGradient ? &at::cpu::_embedding_bag : &at::cpu::_embedding_bag_forward_only;
  try {
    return kTorch(weight, indices, offsets, scale_grad_by_freq, mode, sparse, sample_weights,
                  include_last_offset, padding_idx);
  } catch (const c10::Error&) {
    if (reason == kAsFast) {  // torch's error names neither the argument nor the index
      const BagIndices from(indices, offsets, include_last_offset);
      check_columns(bags_of(from, -1, {}), weight.size(0), kEmbeddingBag);
    }
    throw;
  }
}

CPUACCEL_OVERRIDES{
    CPUACCEL_OVERRIDE("aten::_embedding_bag", c10::DispatchKey::CPU, forward, true),
    CPUACCEL_OVERRIDE("aten::_embedding_bag_forward_only", c10::DispatchKey::CPU, forward, false),
};

}  // namespace

}  // namespace cpuaccel::ops
