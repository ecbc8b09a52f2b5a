#include "ops/embedding/bags.h"

#include <ATen/EmptyTensor.h>

#include <algorithm>

#include "kernels/csr/cut.h"

namespace cpuaccel::ops {
namespace {

at::Tensor new_list(int64_t count, at::ScalarType type) {
  return at::detail::empty_cpu({count}, type);
}

// Copies the elements of a list for which `taken` is true.
template <typename Element, typename Taken>
void copy_taken(const at::Tensor& from, const at::Tensor& to, const Taken& taken) {
  const auto* src = static_cast<const Element*>(from.const_data_ptr());
  auto* dst = static_cast<Element*>(to.mutable_data_ptr());
  for (int64_t i = 0, at = 0; i < from.numel(); ++i) {
    if (taken(i)) {
      dst[at++] = src[i];
    }
  }
}

template <typename Taken>
at::Tensor taken_of(const at::Tensor& from, int64_t count, const Taken& taken) {
  at::Tensor to = new_list(count, from.scalar_type());
  switch (from.itemsize()) {
    case 8:
      copy_taken<int64_t>(from, to, taken);
      break;
    case 4:
      copy_taken<int32_t>(from, to, taken);
      break;
    default:
      copy_taken<int16_t>(from, to, taken);
  }
  return to;
}

// Sets col and values to the `count` elements that are taken, and the rest of csr.
template <typename Taken>
void take(Bags& bags, const at::Tensor& indices, const at::Tensor& weights, int64_t count,
          const Taken& taken) {
  const auto values = weights.defined() ? weights.contiguous() : weights;
  const bool all = count == indices.numel();
  bags.col = all ? indices : taken_of(indices, count, taken);
  bags.values = all || !values.defined() ? values : taken_of(values, count, taken);
  bags.csr.nnz = count;
  bags.csr.col = bags.col.const_data_ptr();
  bags.csr.wide = indices.scalar_type() == at::kLong;
}

// offsets[0], ..., offsets[bags]: with the last one, the end of the last bag.
template <typename Index>
at::Tensor all_offsets(const BagIndices& from) {
  if (from.offsets.numel() == from.bags + 1) {
    return from.offsets;
  }
  at::Tensor all = new_list(from.bags + 1, from.offsets.scalar_type());
  auto* to = all.mutable_data_ptr<Index>();
  std::copy_n(from.offsets.const_data_ptr<Index>(), from.bags, to);
  to[from.bags] = static_cast<Index>(from.count);
  return all;
}

}  // namespace

BagIndices::BagIndices(const at::Tensor& given_indices, const at::Tensor& given_offsets,
                       bool include_last_offset)
    : indices(given_indices.contiguous()),
      offsets(given_offsets.contiguous()),
      bags(given_offsets.numel() - (include_last_offset ? 1 : 0)),
      count(given_indices.numel()) {
  if (indices.scalar_type() != offsets.scalar_type()) {
    indices = indices.to(at::kLong);
    offsets = offsets.to(at::kLong);
  }
  wide = indices.scalar_type() == at::kLong;
}

int64_t BagIndices::offset(int64_t i) const {
  return wide ? offsets.const_data_ptr<int64_t>()[i] : offsets.const_data_ptr<int32_t>()[i];
}

bool BagIndices::begin_and_end() const {
  const int64_t given = offsets.numel();
  return given == 0 || (offset(0) == 0 && offset(given - 1) <= count);
}

void BagIndices::check_ascending(const char* op) const {
  const int64_t given = offsets.numel();
  if (given < 2 || kernels::csr_ascends({.M = given - 1,
                                         .nnz = offset(given - 1),
                                         .crow = offsets.const_data_ptr(),
                                         .wide = wide})) {
    return;
  }
  for (int64_t i = 1; i < given; ++i) {
    TORCH_CHECK(offset(i - 1) <= offset(i), op, ": expected offsets to ascend from 0 to at most ",
                count, ", the number of indices, but offsets[", i - 1, "] is ", offset(i - 1),
                " and offsets[", i, "] is ", offset(i));
  }
}

int64_t BagIndices::in_bags() const {
  return bags == 0 ? 0 : offsets.numel() == bags ? count : offset(bags);
}

Bags bags_of(const BagIndices& from, int64_t padding_idx, const at::Tensor& weights) {
  Bags result;
  result.csr.M = from.bags;
  const int64_t end = from.in_bags();
  with_index_type(from.wide, [&]<typename Index>(Index*) {
    const auto* index = from.indices.const_data_ptr<Index>();
    const auto padding = static_cast<Index>(padding_idx);
    const int64_t left_out = padding_idx < 0 ? 0 : std::count(index, index + end, padding);
    result.crow = all_offsets<Index>(from);
    if (left_out > 0) {
      at::Tensor crow = new_list(from.bags + 1, result.crow.scalar_type());
      const auto* begins = result.crow.const_data_ptr<Index>();
      auto* to = crow.mutable_data_ptr<Index>();
      to[0] = 0;
      for (int64_t m = 0; m < from.bags; ++m) {
        const auto padded = std::count(index + begins[m], index + begins[m + 1], padding);
        to[m + 1] = static_cast<Index>(to[m] + begins[m + 1] - begins[m] - padded);
      }
      result.crow = crow;
    }
    take(result, from.indices, weights, end - left_out,
         [&](int64_t i) { return i < end && index[i] != padding; });
    result.csr.crow = result.crow.const_data_ptr();
  });
  return result;
}

at::Tensor bag_of_each(const BagIndices& from) {
  at::Tensor bags = new_list(from.count, from.indices.scalar_type());
  with_index_type(from.wide, [&]<typename Index>(Index*) {
    auto* to = bags.mutable_data_ptr<Index>();
    const auto* begins = from.offsets.const_data_ptr<Index>();
    const int64_t given = from.offsets.numel();
    int64_t at = 0;
    for (int64_t m = 0; m < from.bags; ++m) {
      const int64_t end = m + 1 < given ? begins[m + 1] : from.count;
      for (; at < end; ++at) {
        to[at] = static_cast<Index>(m);
      }
    }
    std::fill(to + at, to + from.count, static_cast<Index>(-1));
  });
  return bags;
}

Bags bags_of_offset2bag(const at::Tensor& indices, const at::Tensor& offset2bag, int64_t bags,
                        int64_t padding_idx, const at::Tensor& weights) {
  Bags result;
  result.csr.M = bags;
  with_index_type(indices.scalar_type() == at::kLong, [&]<typename Index>(Index*) {
    const auto* index = indices.const_data_ptr<Index>();
    const auto* bag = offset2bag.const_data_ptr<Index>();
    const auto taken = [&](int64_t i) {
      return static_cast<uint64_t>(bag[i]) < static_cast<uint64_t>(bags) &&
             (padding_idx < 0 || index[i] != static_cast<Index>(padding_idx));
    };
    at::Tensor crow = new_list(bags + 1, indices.scalar_type());
    auto* to = crow.mutable_data_ptr<Index>();
    int64_t last = 0, count = 0;
    for (int64_t i = 0; i < indices.numel(); ++i) {
      if (!taken(i)) {
        continue;
      }
      if (bag[i] < last) {
        return;
      }
      for (; last < bag[i]; ++last) {
        to[last + 1] = static_cast<Index>(count);
      }
      ++count;
    }
    for (; last < bags; ++last) {
      to[last + 1] = static_cast<Index>(count);
    }
    to[0] = 0;
    take(result, indices, weights, count, taken);
    result.crow = crow;
    result.csr.crow = crow.const_data_ptr();
  });
  return result;
}

void check_columns(const Bags& bags, int64_t N, const char* op) {
  with_index_type(bags.csr.wide, [&]<typename Index>(Index*) {
    const auto* col = bags.csr.col_as<Index>();
    for (int64_t e = 0; e < bags.csr.nnz; ++e) {
      TORCH_CHECK(col[e] >= 0 && col[e] < N, op,
                  ": expected each of indices to be at least 0 and less than ", N,
                  ", the number of embeddings, but found ", col[e]);
    }
  });
}

}  // namespace cpuaccel::ops
