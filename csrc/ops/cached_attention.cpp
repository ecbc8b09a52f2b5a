// cpuaccel::attend_and_keep_: appends the keys and values of some tokens to a cache, and attends to
// the cache. The sum of attention is in kernels/attention.
//
//   query: N x H x T x E; key, value: N x G x T x E, float32, bfloat16 or float16; G divides H
//   keys, values: N x G x capacity x E, the cache: of their dtype, or int8
//   key_scales, value_scales: N x G x capacity, float32, if the cache is int8
//   mask: N x H x T x (used + T - begin), or of size 1 in any of the first three dimensions, or
//   none; bool (False is masked) or floats (added)
//
// Key t becomes position used + t. Queries attend to positions begin and on: those that the mask
// says, or without a mask all, or with `causal` positions up to used + t. The result is N x T x H x
// E. int8 numbers are key / scale, rounded to nearest even, with scale = largest magnitude / 127.
#include <ATen/Dispatch.h>
#include <ATen/EmptyTensor.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/zeros.h>
#include <torch/library.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>

#include "kernels/attention/attention.h"
#include "ops/attention.h"
#include "ops/data_type.h"
#include "ops/kernel_call.h"

namespace cpuaccel::ops {
namespace {

constexpr auto kAttendAndKeep = "cpuaccel::attend_and_keep_";

using MaybeTensor = std::optional<at::Tensor>;

kernels::AttentionMatrix cached_matrix(const at::Tensor& x, int64_t begin) {
  const auto* const data = static_cast<const char*>(x.const_data_ptr());
  return {data + begin * x.stride(2) * x.element_size(),
          x.scalar_type() == at::kChar ? DataType::s8 : data_type(x.scalar_type()),
          x.stride(0),
          x.stride(1),
          x.stride(2),
          x.stride(3)};
}

void check_cache(const at::Tensor& from, const at::Tensor& cache, const MaybeTensor& scales,
                 int64_t used) {
  const bool narrow = cache.scalar_type() == at::kChar;
  TORCH_CHECK(cache.dim() == 4 && from.dim() == 4 && cache.size(0) == from.size(0) &&
                  cache.size(1) == from.size(1) && cache.size(3) == from.size(3) &&
                  cache.stride(3) == 1,
              kAttendAndKeep, ": keys and values of other sizes than the cache");
  TORCH_CHECK(used >= 0 && used + from.size(2) <= cache.size(2), kAttendAndKeep,
              ": the cache is full");
  TORCH_CHECK(narrow ? scales.has_value() : cache.scalar_type() == from.scalar_type(),
              kAttendAndKeep, ": keys and values of another dtype than the cache");
  TORCH_CHECK(!narrow || (scales->scalar_type() == at::kFloat && scales->is_contiguous() &&
                          scales->sizes() == cache.sizes().slice(0, 3)),
              kAttendAndKeep, ": scales of other sizes than the cache");
}

// Writes a row of E numbers as int8, and returns its scale: NaN if one of them is NaN or infinite.
template <typename T>
float keep_as_int8(const T* src, int64_t stride, int64_t E, int8_t* dst) {
  float largest = 0.0f;
  for (int64_t e = 0; e < E; ++e) {
    const float x = std::fabs(static_cast<float>(src[e * stride]));
    largest = x > largest || std::isnan(x) ? x : largest;  // a NaN stays
  }
  if (!std::isfinite(largest)) {
    std::memset(dst, 0, static_cast<size_t>(E));
    return std::numeric_limits<float>::quiet_NaN();
  }
  const float inverse = largest > 0.0f ? 127.0f / largest : 0.0f;
  for (int64_t e = 0; e < E; ++e) {
    const float x = static_cast<float>(src[e * stride]) * inverse;
    dst[e] = static_cast<int8_t>(std::nearbyint(std::clamp(x, -127.0f, 127.0f)));
  }
  return largest / 127.0f;
}

template <typename T>
void keep_rows_as_int8(const at::Tensor& from, const at::Tensor& cache, const at::Tensor& scales,
                       int64_t used) {
  const int64_t N = from.size(0), G = from.size(1), count = from.size(2), E = from.size(3);
  const auto* const src = from.const_data_ptr<T>();
  auto* const dst = cache.mutable_data_ptr<int8_t>();
  auto* const to = scales.mutable_data_ptr<float>();
  for (int64_t i = 0; i < N * G * count; ++i) {
    const int64_t n = i / count / G, g = i / count % G, t = i % count;
    to[(n * G + g) * cache.size(2) + used + t] = keep_as_int8(
        src + n * from.stride(0) + g * from.stride(1) + t * from.stride(2), from.stride(3), E,
        dst + n * cache.stride(0) + g * cache.stride(1) + (used + t) * cache.stride(2));
  }
}

void keep(const at::Tensor& from, const at::Tensor& cache, const MaybeTensor& scales,
          int64_t used) {
  check_cache(from, cache, scales, used);
  if (cache.scalar_type() == at::kChar) {
    AT_DISPATCH_FLOATING_TYPES_AND2(
        at::kBFloat16, at::kHalf, from.scalar_type(), kAttendAndKeep,
        [&] { keep_rows_as_int8<scalar_t>(from, cache, *scales, used); });
    return;
  }
  const int64_t N = from.size(0), G = from.size(1), count = from.size(2), E = from.size(3);
  const auto size = static_cast<size_t>(from.element_size());
  if (from.stride(3) != 1) {
    cache.narrow(2, used, count).copy_(from);
    return;
  }
  const auto* const src = static_cast<const char*>(from.const_data_ptr());
  auto* const dst = static_cast<char*>(cache.mutable_data_ptr());
  const auto bytes = static_cast<int64_t>(size);
  for (int64_t i = 0; i < N * G * count; ++i) {
    const int64_t n = i / count / G, g = i / count % G, t = i % count;
    std::memcpy(
        dst + (n * cache.stride(0) + g * cache.stride(1) + (used + t) * cache.stride(2)) * bytes,
        src + (n * from.stride(0) + g * from.stride(1) + t * from.stride(2)) * bytes,
        static_cast<size_t>(E) * size);
  }
}

kernels::AttentionScales scales_of(const MaybeTensor& scales, int64_t begin) {
  if (!scales) {
    return {};
  }
  return {scales->const_data_ptr<float>() + begin, scales->stride(0), scales->stride(1), 1};
}

// The mask as floats that broadcast: N x H x T x S.
at::Tensor float_mask(const at::Tensor& mask, const at::Tensor& query, int64_t S) {
  TORCH_CHECK(mask.dim() == 4 && mask.size(3) == S, kAttendAndKeep, ": a mask of another size");
  const at::Tensor floats =
      mask.scalar_type() == at::kBool
          ? at::zeros(mask.sizes(), at::kFloat)
                .masked_fill_(mask.logical_not(), -std::numeric_limits<float>::infinity())
          : mask.to(at::kFloat);
  return floats.expand({query.size(0), query.size(1), query.size(2), S});
}

at::Tensor attend_and_keep(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                           at::Tensor keys, at::Tensor values, int64_t begin, int64_t used,
                           const MaybeTensor& mask, bool causal, std::optional<double> scale,
                           const MaybeTensor& key_scales, const MaybeTensor& value_scales) {
  TORCH_CHECK(query.dim() == 4 && key.dim() == 4 && query.numel() > 0 && key.numel() > 0 &&
                  query.size(0) == key.size(0) && query.size(1) % key.size(1) == 0 &&
                  query.size(2) == key.size(2) && query.size(3) == key.size(3) &&
                  key.sizes() == value.sizes() && begin >= 0 && begin <= used,
              kAttendAndKeep, ": the sizes of query, key and value do not match");
  TORCH_CHECK(is_gemm_type(query.scalar_type()) && key.scalar_type() == query.scalar_type() &&
                  value.scalar_type() == query.scalar_type() &&
                  keys.scalar_type() == values.scalar_type(),
              kAttendAndKeep, ": expected float32, bfloat16 or float16");
  keep(key, keys, key_scales, used);
  keep(value, values, value_scales, used);
  const at::Tensor rows = query.stride(3) == 1 ? query : query.contiguous();
  const int64_t N = rows.size(0), H = rows.size(1), T = rows.size(2), E = rows.size(3);
  const at::Tensor dst = at::detail::empty_cpu({N, T, H, E}, rows.scalar_type());
  kernels::AttentionCall call;
  call.N = N, call.H = H, call.L = T, call.S = used + T - begin, call.E = E;
  call.group = H / key.size(1);
  call.query = cached_matrix(rows, 0);
  call.key = cached_matrix(keys, begin);
  call.value = cached_matrix(values, begin);
  call.key_scales = scales_of(key_scales, begin);
  call.value_scales = scales_of(value_scales, begin);
  at::Tensor floats;
  if (mask) {
    floats = float_mask(*mask, rows, call.S);
    call.mask = cached_matrix(floats, 0);
  }
  call.dst = {dst.mutable_data_ptr(), call.query.type, dst.stride(0), dst.stride(2), dst.stride(1)};
  call.scale = static_cast<float>(scale.value_or(1.0 / std::sqrt(static_cast<double>(E))));
  call.causal = causal;
  call.past = used - begin;
  call.bf16 = attention_in_bf16(call.query.type) && call.query.type != DataType::f16;
  CPUACCEL_KERNEL_CALL(attention);
  kernels::attention(call);
  return dst;
}

TORCH_LIBRARY_FRAGMENT(cpuaccel, library) {
  library.def(
      "attend_and_keep_(Tensor query, Tensor key, Tensor value, Tensor(a!) keys, Tensor(b!) "
      "values, int begin, int used, Tensor? mask, bool causal, float? scale, Tensor(c!)? "
      "key_scales=None, Tensor(d!)? value_scales=None) -> Tensor");
}

TORCH_LIBRARY_IMPL(cpuaccel, CPU, library) { library.impl("attend_and_keep_", attend_and_keep); }

}  // namespace
}  // namespace cpuaccel::ops
