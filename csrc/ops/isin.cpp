// aten::isin of integers: which elements are among others. transformers asks it in each step of
// generate(), for all numbers of a vocabulary. torch sorts both tensors if the second has more than
// some elements, and compares all pairs otherwise.
//
// If the others lie in a narrow range, a table has a byte for each number of the range. Otherwise
// they are sorted, and each element is searched.
#include <ATen/Dispatch.h>
#include <ATen/EmptyTensor.h>
#include <ATen/core/Tensor.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "base/parallel.h"
#include "ops/kernel_call.h"
#include "ops/override.h"
#include "ops/plain_tensor.h"
#include "ops/reasons.h"
#include "ops/torch_compat/cpu_kernels.h"
#include "ops/torch_kernel.h"

namespace cpuaccel::ops {
namespace {

constexpr int64_t kIsinGrain = 16384;
// Up to this many pairs are compared one by one.
constexpr int64_t kIsinPairs = 64;

// Calls `is_member` for each element; writes whether the answer differs from `invert`.
template <typename T, typename IsMember>
void mark_members(const at::Tensor& elements, bool invert, bool* dst, const IsMember& is_member) {
  const auto* const data = elements.const_data_ptr<T>();
  parallel_for(0, elements.numel(), kIsinGrain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      dst[i] = is_member(data[i]) != invert;
    }
  });
}

template <typename T>
void isin_of(const at::Tensor& elements, const at::Tensor& others, bool invert, bool* dst) {
  const auto* const first = others.const_data_ptr<T>();
  const auto* const last = first + others.numel();
  const int64_t count = elements.numel() + others.numel();
  if (others.numel() == 0 || elements.numel() <= kIsinPairs / others.numel()) {
    mark_members<T>(elements, invert, dst, [&](T x) { return std::find(first, last, x) != last; });
    return;
  }
  const auto [least, most] = std::minmax_element(first, last);
  const auto base = static_cast<uint64_t>(*least);
  const uint64_t range = static_cast<uint64_t>(*most) - base;
  if (range < static_cast<uint64_t>(4 * count)) {
    std::vector<uint8_t> table(static_cast<size_t>(range + 2));  // the last number stands outside
    for (const auto* other = first; other != last; ++other) {
      table[static_cast<uint64_t>(*other) - base] = 1;
    }
    const auto* const bytes = table.data();
    mark_members<T>(elements, invert, dst, [&](T x) {
      return bytes[std::min(static_cast<uint64_t>(x) - base, range + 1)] != 0;
    });
    return;
  }
  std::vector<T> sorted(first, last);
  std::ranges::sort(sorted);
  mark_members<T>(elements, invert, dst,
                  [&](T x) { return std::ranges::binary_search(sorted, x); });
}

const char* isin_fallback_reason(const at::Tensor& elements, const at::Tensor& others) {
  if (!is_plain(elements) || !is_plain(others)) {
    return reasons::kLayout;
  }
  constexpr std::array kTypes{at::kByte, at::kChar, at::kShort, at::kInt, at::kLong};
  const bool known = std::ranges::find(kTypes, elements.scalar_type()) != kTypes.end();
  return known && elements.scalar_type() == others.scalar_type() ? nullptr : reasons::kDtype;
}

template <OpName kName>
at::Tensor isin(const at::Tensor& elements, const at::Tensor& others, bool assume_unique,
                bool invert) {
  const char* const reason = isin_fallback_reason(elements, others);
  if (reason != nullptr) {
    report_fallback("aten::isin", reason);
    return at::cpu::isin(elements, others, assume_unique, invert);
  }
  CPUACCEL_KERNEL_CALL(isin);
  at::Tensor result = at::detail::empty_cpu(elements.sizes(), at::kBool);
  const at::Tensor a = elements.contiguous(), b = others.contiguous();
  AT_DISPATCH_INTEGRAL_TYPES(elements.scalar_type(), "isin", [&] {
    isin_of<scalar_t>(a, b, invert, result.mutable_data_ptr<bool>());
  });
  return result;
}

CPUACCEL_OVERRIDES{
    CPUACCEL_OVERRIDE("aten::isin.Tensor_Tensor", c10::DispatchKey::CPU, isin),
};

}  // namespace

}  // namespace cpuaccel::ops
