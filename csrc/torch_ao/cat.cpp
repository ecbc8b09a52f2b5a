// aten::cat and quantized::cat of 8-bit quantized tensors, requantized on the way if quantizers
// differ.

#include <c10/util/SmallVector.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <optional>

#include "kernels/concat/concat.h"
#include "ops/torch_compat/tensors.h"
#include "torch_ao/lookup_table.h"
#include "torch_ao/names.h"

namespace cpuaccel::torch_ao {
namespace {

using Tensors = c10::SmallVector<at::Tensor, 8>;

// How torch walks the inputs. Its kernel for channels_last tensors rounds in another order than its
// general one, which goes through float tensors.
struct Walk {
  bool channels;  // along the channels of channels_last images
  at::MemoryFormat format;
};

bool is_channels_walk(const Tensors& inputs, int64_t dim) {
  return dim == 1 && std::ranges::all_of(inputs, [](const at::Tensor& x) {
           return x.dim() == 4 && x.is_contiguous(at::MemoryFormat::ChannelsLast);
         });
}

// Inputs with different memory formats give a contiguous result.
Walk walk_of(const Tensors& inputs, int64_t dim) {
  if (is_channels_walk(inputs, dim)) {
    return {true, at::MemoryFormat::ChannelsLast};
  }
  const auto format = inputs.front().suggest_memory_format();
  const bool same = std::ranges::all_of(
      inputs, [&](const at::Tensor& x) { return x.suggest_memory_format() == format; });
  return {false, same ? format : at::MemoryFormat::Contiguous};
}

const char* input_fallback_reason(const at::Tensor& x, const at::Tensor& first, int64_t dim) {
  if (!x.is_quantized()) {
    return reasons::kNotQuantized;
  }
  if (const char* reason = lookup_table_fallback_reason(x)) {
    return reason;
  }
  if (x.numel() == 0) {
    return "an input is empty";
  }
  if (x.scalar_type() != first.scalar_type() || x.dim() != first.dim()) {
    return "inputs differ in dtype or shape";
  }
  for (int64_t d = 0; d < x.dim(); ++d) {
    if (d != dim && x.size(d) != first.size(d)) {
      return "inputs differ in dtype or shape";
    }
  }
  return nullptr;
}

// Null, with `walk` filled in, if all inputs can be walked. `torch_dim` is `dim` as torch's own
// test for channels_last images gets it: quantized::cat has not wrapped it by then.
const char* cat_fallback_reason(const Tensors& inputs, int64_t dim, int64_t torch_dim,
                                std::optional<Walk>& walk) {
  if (inputs.empty() || inputs.front().dim() == 0 || dim < 0 || dim >= inputs.front().dim()) {
    return reasons::kInvalidArguments;
  }
  for (const auto& x : inputs) {
    if (const char* reason = input_fallback_reason(x, inputs.front(), dim)) {
      return reason;
    }
  }
  walk = walk_of(inputs, torch_dim);
  return nullptr;
}

int64_t wrapped(const Tensors& inputs, int64_t dim) {
  return dim < 0 && !inputs.empty() ? dim + inputs.front().dim() : dim;
}

// Dimensions from the outermost to the innermost in memory.
using Order = c10::SmallVector<int64_t, 5>;
Order order_of(int64_t dims, at::MemoryFormat format) {
  Order order(static_cast<size_t>(dims));
  std::iota(order.begin(), order.end(), int64_t{0});
  if (format != at::MemoryFormat::Contiguous) {
    std::rotate(order.begin() + 1, order.begin() + 2, order.end());  // channels to the end
  }
  return order;
}

// The distance in bytes between the rows of `x`, which are its last dimensions from `first` on in
// `order`; 0 if rows are not dense or not at equal distances.
int64_t row_stride(const at::Tensor& x, const Order& order, size_t first) {
  int64_t dense = 1;
  for (size_t i = order.size(); i-- > first;) {
    if (x.size(order[i]) != 1 && x.stride(order[i]) != dense) {
      return 0;
    }
    dense *= x.size(order[i]);
  }
  int64_t distance = 0, next = 0;
  for (size_t i = first; i-- > 0;) {
    const int64_t size = x.size(order[i]), stride = x.stride(order[i]);
    if (size == 1) {
      continue;
    }
    if (stride == 0 || (distance != 0 && stride != next)) {
      return 0;
    }
    distance = distance == 0 ? stride : distance;
    next = stride * size;
  }
  return distance == 0 ? dense : distance;
}

// Calls torch's own concatenation, whose last 256 values are those of `values`.
using Ask = c10::function_ref<at::Tensor(const at::Tensor& values, int64_t dim)>;

// torch's result for each of the 256 values of `x`.
std::array<uint8_t, 256> requantization(const char* name, const at::Tensor& x, const Walk& walk,
                                        const PerTensor& to, Ask ask) {
  const auto from = per_tensor(x);
  LookupTableKey key{name, from.scale, from.zero_point, x.scalar_type()};
  key.add(to.scale);
  key.add(to.zero_point);
  key.add(walk.channels);
  const auto make = [&] {
    const auto values = every_value(x);
    const auto result = walk.channels ? ask(values.view({1, 256, 1, 1}), 1) : ask(values, 0);
    LookupTable table;
    std::memcpy(table.entries.data(), bytes(result) + result.numel() - 256, 256);
    return table;
  };
  return cached_lookup_table(key, make).entries;
}

bool is_identity(const std::array<uint8_t, 256>& table) {
  for (size_t i = 0; i < table.size(); ++i) {
    if (table[i] != i) {
      return false;
    }
  }
  return true;
}

at::Tensor concatenate(const char* name, const Tensors& inputs, int64_t dim, const Walk& walk,
                       const PerTensor& to, Ask ask) {
  const auto& first = inputs.front();
  c10::SmallVector<std::array<uint8_t, 256>, 8> tables;
  for (const auto& x : inputs) {
    tables.push_back(requantization(name, x, walk, to, ask));
  }
  const KernelCall kernel_call(Op::cat);
  const auto order = order_of(first.dim(), walk.format);
  const auto along = static_cast<size_t>(std::ranges::find(order, dim) - order.begin());
  int64_t rows = 1;
  for (size_t i = 0; i < along; ++i) {
    rows *= first.size(order[i]);
  }
  c10::SmallVector<c10::MaybeOwned<at::Tensor>, 8> dense;
  c10::SmallVector<kernels::ConcatPart, 8> parts;
  auto sizes = first.sizes().vec();
  sizes[static_cast<size_t>(dim)] = 0;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const auto& x = inputs[i];
    const int64_t columns = x.numel() / rows;
    int64_t stride = row_stride(x, order, along);
    if (stride == 0) {
      stride = columns;
      dense.push_back(x.expect_contiguous(walk.format));
    } else {
      dense.push_back(c10::MaybeOwned<at::Tensor>::borrowed(x));
    }
    const auto* table = is_identity(tables[i]) ? nullptr : tables[i].data();
    parts.push_back({bytes(*dense.back()), columns, stride, table});
    sizes[static_cast<size_t>(dim)] += x.size(dim);
  }
  auto result = empty_quantized(sizes, first.scalar_type(), to.scale, to.zero_point, walk.format);
  kernels::concat_u8({parts.data(), parts.size()}, mutable_bytes(result), rows);
  return result;
}

template <OpName kName>
at::Tensor quantized_cat(const c10::List<at::Tensor>& qx, int64_t dim, std::optional<double> scale,
                         std::optional<int64_t> zero_point) {
  if (engine_is_replaced()) {
    Tensors inputs;
    for (const auto& x : qx) {
      inputs.push_back(x);
    }
    std::optional<Walk> walk;
    const int64_t along = wrapped(inputs, dim);
    const char* reason = cat_fallback_reason(inputs, along, dim, walk);
    if (reason == nullptr) {
      auto to = per_tensor(inputs.front());
      to = {scale.value_or(to.scale), zero_point.value_or(to.zero_point)};
      const auto ask = [&](const at::Tensor& values, int64_t axis) {
        return call_torch(kName.text, c10::List<at::Tensor>{values}, axis,
                          std::optional<double>(to.scale), std::optional<int64_t>(to.zero_point))
            .toTensor();
      };
      return concatenate(kName.text, inputs, along, *walk, to, ask);
    }
    report_fallback(kName.text, reason);
  }
  return call_torch(kName.text, qx, dim, scale, zero_point).toTensor();
}

template <OpName kName>
at::Tensor cat(const at::ITensorListRef& tensors, int64_t dim) {
  Tensors inputs;
  for (const auto& x : tensors) {
    inputs.push_back(x);
  }
  if (engine_is_replaced()) {
    std::optional<Walk> walk;
    const int64_t along = wrapped(inputs, dim);
    const char* reason = cat_fallback_reason(inputs, along, along, walk);
    if (reason == nullptr) {
      // Some versions of torch reject quantizers that differ, so the first input is concatenated
      // too.
      const auto& first = inputs.front();
      const auto ask = [&](const at::Tensor& values, int64_t axis) {
        const c10::List<at::Tensor> pair{every_value(first).view(values.sizes()), values};
        return call_torch(kName.text, pair, axis).toTensor();
      };
      return concatenate(kName.text, inputs, along, *walk, per_tensor(first), ask);
    }
    report_fallback(kName.text, reason);
  }
  return call_torch(kName.text, c10::List<at::Tensor>(at::TensorList(inputs)), dim).toTensor();
}

#define ROW(name, ...) CPUACCEL_OVERRIDE(name, c10::DispatchKey::QuantizedCPU, __VA_ARGS__)
CPUACCEL_OVERRIDES{
    ROW("aten::cat", cat),
    ROW("quantized::cat", quantized_cat),
    ROW("quantized::cat_relu", quantized_cat),
};
#undef ROW

}  // namespace

}  // namespace cpuaccel::torch_ao
