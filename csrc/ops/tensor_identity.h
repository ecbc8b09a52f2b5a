// The identity of a tensor, as far as it is known without reading its values: storage, offset,
// type, sizes, strides.
#pragma once

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cstdint>

namespace cpuaccel::ops {

// A storage's address identifies it only while a weak pointer to it is held.
struct TensorIdentity {
  const c10::StorageImpl* storage;
  int64_t offset;
  at::ScalarType type;
  c10::SmallVector<int64_t, 8> sizes_strides;
  bool operator==(const TensorIdentity&) const = default;
};

inline TensorIdentity identity_of(const at::Tensor& tensor) {
  TensorIdentity identity{
      tensor.storage().unsafeGetStorageImpl(), tensor.storage_offset(), tensor.scalar_type(), {}};
  identity.sizes_strides.append(tensor.sizes().begin(), tensor.sizes().end());
  identity.sizes_strides.append(tensor.strides().begin(), tensor.strides().end());
  return identity;
}

// Whether identity_of(tensor) == identity, without making one.
inline bool is_identical(const TensorIdentity& identity, const at::Tensor& tensor) {
  const auto sizes = tensor.sizes();
  const auto strides = tensor.strides();
  const auto* known = identity.sizes_strides.begin();
  return tensor.storage().unsafeGetStorageImpl() == identity.storage &&
         tensor.storage_offset() == identity.offset && tensor.scalar_type() == identity.type &&
         2 * sizes.size() == identity.sizes_strides.size() &&
         std::equal(sizes.begin(), sizes.end(), known) &&
         std::equal(strides.begin(), strides.end(), known + sizes.size());
}

}  // namespace cpuaccel::ops
