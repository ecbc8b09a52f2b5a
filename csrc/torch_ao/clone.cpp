// aten::clone of quantized tensors, which contiguous() calls: mostly changes of layout.
#include <c10/util/SmallVector.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <optional>

#include "base/parallel.h"
#include "kernels/transpose/transpose.h"
#include "torch_ao/names.h"
#include "torch_ao/quint8.h"

namespace cpuaccel::torch_ao {
namespace {

struct Dimension {
  int64_t size, src_stride, dst_stride;
};
using Dimensions = c10::SmallVector<Dimension, 5>;

// Shorter rows are copied faster by torch's loop over elements than by a memcpy each.
constexpr int64_t kShortestRow = 16;
constexpr int64_t kGrainBytes = 131072;  // a few microseconds, the cost of waking a thread

// The dimensions of a copy, outermost of dst first. Dimensions that are adjacent in both tensors
// are merged.
Dimensions dimensions_of(const at::Tensor& src, const at::Tensor& dst) {
  Dimensions all;
  for (int64_t i = 0; i < src.dim(); ++i) {
    if (src.size(i) > 1) {
      all.push_back({src.size(i), src.stride(i), dst.stride(i)});
    }
  }
  std::sort(all.begin(), all.end(),
            [](const Dimension& a, const Dimension& b) { return a.dst_stride > b.dst_stride; });
  Dimensions merged;
  for (const auto& inner : all) {
    if (!merged.empty() && merged.back().src_stride == inner.src_stride * inner.size) {
      auto& outer = merged.back();
      outer = {outer.size * inner.size, inner.src_stride, inner.dst_stride};
    } else {
      merged.push_back(inner);
    }
  }
  return merged;
}

void copy_run(const uint8_t* src, uint8_t* dst, int64_t count) {
  if (count <= kGrainBytes) {
    std::memcpy(dst, src, static_cast<size_t>(count));
    return;
  }
  parallel_for(0, count, kGrainBytes, [&](int64_t begin, int64_t end) {
    std::memcpy(dst + begin, src + begin, static_cast<size_t>(end - begin));
  });
}

// Calls copy(src, dst) for every index of the dimensions.
template <typename Copy>
void for_each(const Dimension* begin, const Dimension* end, const uint8_t* src, uint8_t* dst,
              const Copy& copy) {
  if (begin == end) {
    copy(src, dst);
    return;
  }
  for (int64_t i = 0; i < begin->size; ++i) {
    for_each(begin + 1, end, src + i * begin->src_stride, dst + i * begin->dst_stride, copy);
  }
}

// A copy of rows of bytes, or a transposition of two dimensions, repeated over the other
// dimensions.
struct Copy {
  Dimensions around;
  Dimension row{1, 1, 1};           // the innermost of dst
  std::optional<Dimension> column;  // the innermost of src, if it is another one
};

std::optional<Copy> copy_between(const at::Tensor& src, const at::Tensor& dst) {
  Copy copy;
  copy.around = dimensions_of(src, dst);
  auto& around = copy.around;
  if (around.empty()) {
    return copy;
  }
  copy.row = around.back();
  around.pop_back();
  if (copy.row.src_stride == 1) {
    return around.empty() || copy.row.size >= kShortestRow ? std::optional(copy) : std::nullopt;
  }
  const auto column = std::find_if(around.begin(), around.end(), [](const Dimension& dimension) {
    return dimension.src_stride == 1;
  });
  if (column == around.end()) {
    return std::nullopt;
  }
  copy.column = *column;
  around.erase(column);
  return copy;
}

void run_copy(Copy copy, const uint8_t* src, uint8_t* dst) {
  auto& around = copy.around;
  if (!copy.column) {
    for_each(around.begin(), around.end(), src, dst,
             [&](const uint8_t* from, uint8_t* to) { copy_run(from, to, copy.row.size); });
    return;
  }
  kernels::Transpose shape{.M = copy.row.size,
                           .src_stride = copy.row.src_stride,
                           .K = copy.column->size,
                           .dst_stride = copy.column->dst_stride};
  if (!around.empty()) {
    shape.B = around.front().size;
    shape.src_batch = around.front().src_stride;
    shape.dst_batch = around.front().dst_stride;
    around.erase(around.begin());
  }
  for_each(around.begin(), around.end(), src, dst,
           [&](const uint8_t* from, uint8_t* to) { kernels::transpose_bytes(shape, from, to); });
}

const char* clone_fallback_reason(const at::Tensor& self, at::MemoryFormat format) {
  const auto dtype = self.scalar_type();
  if (dtype != at::kQUInt8 && dtype != at::kQInt8) {
    return reasons::kNot8Bit;
  }
  const auto scheme = at::get_qtensorimpl(self)->quantizer()->qscheme();
  if (scheme != at::kPerTensorAffine && scheme != at::kPerChannelAffine) {
    return reasons::kInvalidArguments;
  }
  const bool possible = format == at::MemoryFormat::Contiguous ||
                        (format == at::MemoryFormat::ChannelsLast && self.dim() == 4) ||
                        (format == at::MemoryFormat::ChannelsLast3d && self.dim() == 5);
  return possible ? nullptr : reasons::kInvalidArguments;
}

template <OpName kName>
at::Tensor clone(const at::Tensor& self, std::optional<at::MemoryFormat> memory_format) {
  if (engine_is_replaced()) {
    auto format = memory_format.value_or(at::MemoryFormat::Contiguous);  // torch's default here
    if (format == at::MemoryFormat::Preserve) {
      format = self.suggest_memory_format();
    }
    const char* reason = clone_fallback_reason(self, format);
    if (reason == nullptr) {
      auto result = empty_quantized_as(self, self.sizes(), format);
      if (self.numel() == 0) {
        return result;
      }
      if (const auto copy = copy_between(self, result)) {
        CPUACCEL_KERNEL_CALL(clone);
        run_copy(*copy, bytes(self), mutable_bytes(result));
        return result;
      }
      // Other strides are not counted as a fallback: torch copies them as it always does.
      return call_torch(kName.text, self, memory_format).toTensor();
    }
    report_fallback(kName.text, reason);
  }
  return call_torch(kName.text, self, memory_format).toTensor();
}

CPUACCEL_OVERRIDES{
    CPUACCEL_OVERRIDE("aten::clone", c10::DispatchKey::QuantizedCPU, clone),
};

}  // namespace

}  // namespace cpuaccel::torch_ao
