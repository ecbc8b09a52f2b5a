// The bags of EmbeddingBag as a sparse matrix: one row for each bag, and an entry in column
// indices[i] for each index i of the bag.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "kernels/csr/csr.h"

namespace cpuaccel::ops {

// Offsets and indices, one-dimensional. Bag m has the indices [offsets[m], offsets[m+1]). With
// include_last_offset, indices from the last offset on are in no bag; otherwise the last bag has
// the rest.
struct BagIndices {
  // Both become contiguous and of one type, as in torch.
  BagIndices(const at::Tensor& given_indices, const at::Tensor& given_offsets,
             bool include_last_offset);

  at::Tensor indices, offsets;
  int64_t bags = 0, count = 0;  // -1 bags: offsets are empty although the last one is expected
  bool wide = true;             // int64, else int32

  int64_t offset(int64_t i) const;
  // Whether the first offset is 0 and no offset of the last bag is above count. torch checks that.
  bool begin_and_end() const;
  // Throws if an offset is less than the one before, which torch does not check.
  void check_ascending(const char* op) const;
  // Indices in bags, for offsets that pass both checks.
  int64_t in_bags() const;
};

struct Bags {
  kernels::Csr csr;  // N is the caller's
  at::Tensor crow, col;
  at::Tensor values;  // undefined: ones
};

// The bags without the indices that equal padding_idx; -1 leaves out none. `weights` has a value
// for each index, or is undefined. Offsets must have passed the checks above.
Bags bags_of(const BagIndices& from, int64_t padding_idx, const at::Tensor& weights);

// offset2bag of torch's ops: the bag of each index, -1 if it is in none.
at::Tensor bag_of_each(const BagIndices& from);

// The bags of indices of which offset2bag is known. Indices with a bag that is not in [0, bags)
// are left out. The result has no crow if offset2bag does not ascend otherwise.
Bags bags_of_offset2bag(const at::Tensor& indices, const at::Tensor& offset2bag, int64_t bags,
                        int64_t padding_idx, const at::Tensor& weights);

// Throws the error for the first column that is not in [0, N), if there is one.
void check_columns(const Bags& bags, int64_t N, const char* op);

// Calls body with a null pointer to int64_t or int32_t.
template <typename Body>
void with_index_type(bool wide, const Body& body) {
  wide ? body(static_cast<int64_t*>(nullptr)) : body(static_cast<int32_t*>(nullptr));
}

}  // namespace cpuaccel::ops
