// cpuaccel::attend_and_keep_: appends the keys and values of some tokens to a cache, and attends to
// the cache.
//
//   query: N x H x T x E; key, value: N x G x T x E, float32, bfloat16 or float16; G divides H
//   keys, values: N x G x capacity x E, the cache: of their dtype, or int8
//   key_scales, value_scales: N x G x capacity, float32, if the cache is int8
//   mask: N x H x T x (used + T - begin), or of size 1 in any of the first three dimensions, or
//   none; bool (False is masked) or floats (added)
//   sinks: H floats, or none
//
// Key t becomes position used + t. Query t attends to positions begin and on that the mask says:
// to all of them if window is -1, else to those up to used + t, of which it sees the last `window`
// unless that is 0. kernels/attention/attention.h has the formula, with scale, soft_cap and sinks.
// The result is N x T x H x E. int8 numbers are key / scale, rounded to nearest even, with scale =
// largest magnitude / 127.
//
// cpuaccel::cached_attention is the same in a captured decoder, whose calls know the cache.
// cpuaccel::cross_attention attends to a cache that stays as it is, of an encoder's states. Python
// computes both (cpuaccel/compile/capture/cached_attention.py, cross_attention.py), or steps of a
// plan do (region/cached_attention_step.cpp).
#include "ops/cached_attention.h"

#include <ATen/EmptyTensor.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/zeros.h>
#include <torch/library.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>

#include "base/parallel.h"
#include "ops/attention.h"
#include "ops/data_type.h"
#include "ops/kernel_call.h"

namespace cpuaccel::ops {
namespace {

constexpr auto kAttendAndKeep = "cpuaccel::attend_and_keep_";

using MaybeTensor = std::optional<at::Tensor>;

// From position `begin` on.
kernels::AttentionMatrix cached_matrix(const at::Tensor& x, int64_t begin) {
  const auto* const data = static_cast<const char*>(x.const_data_ptr());
  return {data + begin * x.stride(2) * x.element_size(),
          x.scalar_type() == at::kChar ? DataType::s8 : data_type(x.scalar_type()),
          x.stride(0),
          x.stride(1),
          x.stride(2),
          x.stride(3)};
}

bool is_cache_of(const CallHeads& heads, const at::Tensor& cache, const at::Tensor& scales,
                 int64_t used) {
  const bool narrow = cache.scalar_type() == at::kChar;
  return cache.dim() == 4 && cache.size(0) == heads.N && cache.size(1) == heads.G &&
         cache.size(3) == heads.E && cache.stride(3) == 1 && used >= 0 &&
         used + heads.added() <= cache.size(2) && narrow == scales.defined() &&
         (narrow ? scales.scalar_type() == at::kFloat && scales.is_contiguous() &&
                       scales.sizes() == cache.sizes().slice(0, 3)
                 : is_gemm_type(cache.scalar_type()) &&
                       data_type(cache.scalar_type()) == heads.query.type);
}

bool is_mask_of(const CallHeads& heads, const at::Tensor& mask, int64_t S) {
  const auto fits = [&](int64_t dim, int64_t size) {
    return mask.size(dim) == size || mask.size(dim) == 1;
  };
  return mask.scalar_type() == at::kFloat && mask.dim() == 4 && fits(0, heads.N) &&
         fits(1, heads.H) && fits(2, heads.T) && mask.size(3) == S;
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

float keep_as_int8(DataType type, const void* src, int64_t stride, int64_t E, int8_t* dst) {
  switch (type) {
    case DataType::bf16:
      return keep_as_int8(static_cast<const c10::BFloat16*>(src), stride, E, dst);
    case DataType::f16:
      return keep_as_int8(static_cast<const c10::Half*>(src), stride, E, dst);
    default:
      return keep_as_int8(static_cast<const float*>(src), stride, E, dst);
  }
}

// Rows of keys or values that a thread copies at least.
constexpr int64_t kKeptRows = 256;

// Copies a row of E numbers of `bytes` bytes.
void keep_row(const char* src, int64_t stride, int64_t E, int64_t bytes, char* dst) {
  if (stride == 1) {
    std::memcpy(dst, src, static_cast<size_t>(E * bytes));
    return;
  }
  for (int64_t e = 0; e < E; ++e) {
    std::memcpy(dst + e * bytes, src + e * stride * bytes, static_cast<size_t>(bytes));
  }
}

void keep(const CallHeads& heads, const kernels::AttentionMatrix& from, const at::Tensor& cache,
          const at::Tensor& scales, int64_t used) {
  const auto* const src = static_cast<const char*>(from.data);
  auto* const dst = static_cast<char*>(cache.mutable_data_ptr());
  auto* const dst_scales = scales.defined() ? scales.mutable_data_ptr<float>() : nullptr;
  const int64_t bytes = data_type_size(from.type), to_bytes = cache.element_size();
  parallel_for(0, heads.N * heads.G * heads.T, kKeptRows, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      const int64_t n = i / heads.T / heads.G, g = i / heads.T % heads.G, t = i % heads.T;
      const auto* const row =
          src + (n * from.batch_stride + g * from.head_stride + t * from.row_stride) * bytes;
      auto* const to =
          dst +
          (n * cache.stride(0) + g * cache.stride(1) + (used + t) * cache.stride(2)) * to_bytes;
      if (dst_scales != nullptr) {
        dst_scales[(n * heads.G + g) * cache.size(2) + used + t] = keep_as_int8(
            from.type, row, from.column_stride, heads.E, reinterpret_cast<int8_t*>(to));
      } else {
        keep_row(row, from.column_stride, heads.E, bytes, to);
      }
    }
  });
}

kernels::AttentionScales scales_of(const at::Tensor& scales, int64_t begin) {
  if (!scales.defined()) {
    return {};
  }
  return {scales.const_data_ptr<float>() + begin, scales.stride(0), scales.stride(1), 1};
}

kernels::AttentionMatrix cached_mask(const at::Tensor& mask) {
  const auto stride = [&](int64_t dim) { return mask.size(dim) == 1 ? 0 : mask.stride(dim); };
  return {mask.const_data_ptr(), DataType::f32, stride(0), stride(1), stride(2), mask.stride(3)};
}

at::Tensor as_floats(const at::Tensor& mask) {
  if (mask.scalar_type() != at::kBool) {
    return mask.to(at::kFloat);
  }
  return at::zeros(mask.sizes(), at::kFloat)
      .masked_fill_(mask.logical_not(), -std::numeric_limits<float>::infinity());
}

at::Tensor call_of_op(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                      at::Tensor keys, at::Tensor values, int64_t begin, int64_t used,
                      const MaybeTensor& mask, int64_t window, std::optional<double> scale,
                      double soft_cap, const MaybeTensor& sinks, const MaybeTensor& key_scales,
                      const MaybeTensor& value_scales) {
  TORCH_CHECK(query.dim() == 4 && key.dim() == 4 && query.numel() > 0 && key.numel() > 0 &&
                  query.size(0) == key.size(0) && query.size(1) % key.size(1) == 0 &&
                  query.size(2) == key.size(2) && query.size(3) == key.size(3) &&
                  key.sizes() == value.sizes(),
              kAttendAndKeep, ": the sizes of query, key and value do not match");
  TORCH_CHECK(is_gemm_type(query.scalar_type()) && key.scalar_type() == query.scalar_type() &&
                  value.scalar_type() == query.scalar_type(),
              kAttendAndKeep, ": expected float32, bfloat16 or float16");
  const at::Tensor rows = query.stride(3) == 1 ? query : query.contiguous();
  const int64_t N = rows.size(0), H = rows.size(1), T = rows.size(2), E = rows.size(3);
  const at::Tensor dst = at::detail::empty_cpu({N, T, H, E}, rows.scalar_type());
  CallHeads heads{N,
                  H,
                  key.size(1),
                  T,
                  E,
                  cached_matrix(rows, 0),
                  cached_matrix(key, 0),
                  cached_matrix(value, 0),
                  {}};
  heads.dst = {dst.mutable_data_ptr(), heads.query.type, dst.stride(0), dst.stride(2),
               dst.stride(1)};
  const LayerCache cache{
      std::move(keys),
      std::move(values),
      key_scales.value_or(at::Tensor()),
      value_scales.value_or(at::Tensor()),
      begin,
      used,
      static_cast<float>(scale.value_or(1.0 / std::sqrt(static_cast<double>(E)))),
      static_cast<float>(soft_cap),
      sinks.value_or(at::Tensor())};
  const CallMask seen{mask ? as_floats(*mask) : at::Tensor(), window};
  const char* const why = mismatch(heads, cache, seen);
  TORCH_CHECK(why == nullptr, kAttendAndKeep, ": ", why);
  attend_and_keep(heads, cache, seen);
  return dst;
}

}  // namespace

const char* mismatch(const CallHeads& heads, const LayerCache& cache, const CallMask& mask) {
  if (cache.begin < 0 || cache.begin + 1 > cache.used + heads.added() || heads.G <= 0 ||
      heads.H % heads.G != 0 || !is_cache_of(heads, cache.keys, cache.key_scales, cache.used) ||
      !is_cache_of(heads, cache.values, cache.value_scales, cache.used) ||
      cache.keys.scalar_type() != cache.values.scalar_type()) {
    return "the cache is full, or its sizes or dtypes do not match the keys and values";
  }
  if (mask.added.defined() &&
      !is_mask_of(heads, mask.added, cache.used + heads.added() - cache.begin)) {
    return "the mask has other sizes than the scores";
  }
  if (mask.window < -1 || !(cache.soft_cap >= 0.0f)) {
    return "window: expected -1 or more; soft_cap: expected 0 or more";
  }
  if (cache.sinks.defined() &&
      (!is_gemm_type(cache.sinks.scalar_type()) || cache.sinks.sizes() != c10::ArrayRef(heads.H))) {
    return "sinks: expected a float for each head of the queries";
  }
  return nullptr;
}

void attend_and_keep(const CallHeads& heads, const LayerCache& cache, const CallMask& mask) {
  if (heads.appends) {
    keep(heads, heads.key, cache.keys, cache.key_scales, cache.used);
    keep(heads, heads.value, cache.values, cache.value_scales, cache.used);
  }
  kernels::AttentionCall call;
  call.N = heads.N, call.H = heads.H, call.L = heads.T, call.E = heads.E;
  call.S = cache.used + heads.added() - cache.begin;
  call.group = heads.H / heads.G;
  call.query = heads.query;
  call.key = cached_matrix(cache.keys, cache.begin);
  call.value = cached_matrix(cache.values, cache.begin);
  call.key_scales = scales_of(cache.key_scales, cache.begin);
  call.value_scales = scales_of(cache.value_scales, cache.begin);
  if (mask.added.defined()) {
    call.mask = cached_mask(mask.added);
  }
  const at::Tensor sinks =
      cache.sinks.defined() ? cache.sinks.detach().to(at::kFloat).contiguous() : cache.sinks;
  call.sinks = sinks.defined() ? sinks.const_data_ptr<float>() : nullptr;
  call.dst = heads.dst;
  call.scale = cache.scale;
  call.soft_cap = cache.soft_cap;
  call.causal = mask.window >= 0;
  call.window = std::max<int64_t>(mask.window, 0);
  call.past = cache.used - cache.begin;
  call.bf16 = attention_in_bf16(call.query.type) && call.query.type != DataType::f16;
  CPUACCEL_KERNEL_CALL(attention);
  kernels::attention(call);
}

TORCH_LIBRARY_FRAGMENT(cpuaccel, library) {
  library.def(
      "attend_and_keep_(Tensor query, Tensor key, Tensor value, Tensor(a!) keys, Tensor(b!) "
      "values, int begin, int used, Tensor? mask, int window, float? scale, float soft_cap=0.0, "
      "Tensor? sinks=None, Tensor(c!)? key_scales=None, Tensor(d!)? value_scales=None) -> Tensor");
  library.def("cached_attention(Tensor query, Tensor key, Tensor value, int site) -> Tensor");
  library.def("cross_attention(Tensor query, int site) -> Tensor");
}

TORCH_LIBRARY_IMPL(cpuaccel, CPU, library) { library.impl("attend_and_keep_", call_of_op); }

}  // namespace cpuaccel::ops
