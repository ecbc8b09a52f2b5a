// Upsampling of quantized images: aten::upsample_nearest2d, _upsample_nearest_exact2d and
// upsample_bilinear2d. torch's own functions compute the pixels and weights.
#include <c10/util/SmallVector.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <optional>

#include "base/parallel.h"
#include "kernels/bilinear/bilinear.h"
#include "kernels/zero_point.h"
#include "torch_ao/images.h"
#include "torch_ao/names.h"
#include "torch_ao/torch_compat.h"

namespace cpuaccel::torch_ao {
namespace {

using Scale = std::optional<double>;
using Indices = c10::SmallVector<int64_t, 64>;
using Taps = c10::SmallVector<kernels::BilinearTap, 64>;

constexpr int64_t kUpsampleGrainBytes = 65536;  // a few microseconds, the cost of waking a thread

const char* upsample_fallback_reason(const at::Tensor& self, at::IntArrayRef output_size) {
  if (const char* reason = images_fallback_reason(self)) {
    return reason;
  }
  const bool possible = output_size.size() == 2 && output_size[0] > 0 && output_size[1] > 0 &&
                        self.size(1) > 0 && self.size(2) > 0 && self.size(3) > 0;
  return possible ? nullptr : reasons::kInvalidArguments;
}

using NearestIndex = int64_t(float scale, int64_t index, int64_t size);

Indices nearest_indices(int64_t size, int64_t count, Scale scale, NearestIndex* index) {
  const auto step = at::native::compute_scales_value<float>(scale, size, count);
  Indices indices;
  for (int64_t i = 0; i < count; ++i) {
    indices.push_back(std::max<int64_t>(index(step, i, size), 0));
  }
  return indices;
}

// Copied in some 5 us, the cost of waking a thread.
constexpr int64_t kCopyGrainBytes = 256 << 10;

void copy_images(const at::Tensor& src, const at::Tensor& dst) {
  const uint8_t* from = bytes(src);
  uint8_t* to = mutable_bytes(dst);
  parallel_for(0, src.numel(), kCopyGrainBytes, [&](int64_t begin, int64_t end) {
    std::memcpy(to + begin, from + begin, static_cast<size_t>(end - begin));
  });
}

// A row equal to the one before is copied from it as a whole.
void nearest(const at::Tensor& src, const Indices& rows, const Indices& columns,
             const at::Tensor& dst) {
  const auto pixel = static_cast<size_t>(src.size(1));
  const size_t src_row = pixel * static_cast<size_t>(src.size(3));
  const size_t dst_row = pixel * columns.size();
  const auto height = static_cast<int64_t>(rows.size());
  const uint8_t* from = bytes(src);
  uint8_t* to = mutable_bytes(dst);
  const auto run = [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const int64_t n = row / height, oh = row % height;
      uint8_t* target = to + static_cast<size_t>(row) * dst_row;
      if (row > begin && oh > 0 && rows[oh] == rows[oh - 1]) {
        std::memcpy(target, target - dst_row, dst_row);
        continue;
      }
      const uint8_t* source = from + static_cast<size_t>(n * src.size(2) + rows[oh]) * src_row;
      for (const int64_t column : columns) {
        std::memcpy(target, source + static_cast<size_t>(column) * pixel, pixel);
        target += pixel;
      }
    }
  };
  parallel_for(0, src.size(0) * height,
               std::max<int64_t>(kUpsampleGrainBytes / static_cast<int64_t>(dst_row), 1), run);
}

template <OpName kName, NearestIndex* kIndex>
at::Tensor upsample_nearest2d(const at::Tensor& self, at::IntArrayRef output_size, Scale scales_h,
                              Scale scales_w) {
  if (engine_is_replaced()) {
    const char* reason = upsample_fallback_reason(self, output_size);
    if (reason == nullptr) {
      CPUACCEL_KERNEL_CALL(upsample_nearest2d);
      const int64_t height = output_size[0], width = output_size[1];
      const auto images = empty_images_as(self, height, width);
      // torch copies if the size does not change, whatever the scales.
      if (height == self.size(2) && width == self.size(3)) {
        copy_images(self, images);
      } else {
        nearest(self, nearest_indices(self.size(2), height, scales_h, kIndex),
                nearest_indices(self.size(3), width, scales_w, kIndex), images);
      }
      return with_torch_strides(images, self);
    }
    report_fallback(kName.text, reason);
  }
  return call_torch(kName.text, self, output_size, scales_h, scales_w).toTensor();
}

// Scales that do not fit the sizes can point beyond the image: then its last pixel is used.
Taps bilinear_taps(int64_t size, int64_t count, bool align_corners, Scale scale) {
  const auto step = at::native::area_pixel_compute_scale<float>(size, count, align_corners, scale);
  Taps taps;
  for (int64_t i = 0; i < count; ++i) {
    const auto place =
        std::min(at::native::area_pixel_compute_source_index<float>(step, i, align_corners, false),
                 static_cast<float>(size - 1));
    const auto first = static_cast<int64_t>(place);
    const float weight = place - static_cast<float>(first);
    taps.push_back({first, std::min(first + 1, size - 1), 1.0f - weight, weight});
  }
  return taps;
}

// 1 if torch rounds halves to odd bytes: it adds an odd zero point after rounding.
int32_t odd_zero_point(const at::Tensor& images) {
  const bool after = kernels::zero_point_added() == kernels::ZeroPointAdded::after_rounding;
  return after ? static_cast<int32_t>(per_tensor(images).zero_point & 1) : 0;
}

template <OpName kName>
at::Tensor upsample_bilinear2d(const at::Tensor& self, at::IntArrayRef output_size,
                               bool align_corners, Scale scales_h, Scale scales_w) {
  if (engine_is_replaced()) {
    const char* reason = upsample_fallback_reason(self, output_size);
    if (reason == nullptr) {
      CPUACCEL_KERNEL_CALL(upsample_bilinear2d);
      const int64_t height = output_size[0], width = output_size[1];
      const Taps rows = bilinear_taps(self.size(2), height, align_corners, scales_h);
      const Taps columns = bilinear_taps(self.size(3), width, align_corners, scales_w);
      const auto images = empty_images_as(self, height, width);
      kernels::bilinear_u8({.N = self.size(0),
                            .H = self.size(2),
                            .W = self.size(3),
                            .C = self.size(1),
                            .OH = height,
                            .OW = width,
                            .rows = rows.data(),
                            .columns = columns.data(),
                            .odd = odd_zero_point(self)},
                           bytes(self), mutable_bytes(images));
      return with_torch_strides(images, self);
    }
    report_fallback(kName.text, reason);
  }
  return call_torch(kName.text, self, output_size, align_corners, scales_h, scales_w).toTensor();
}

#define ROW(name, ...) CPUACCEL_OVERRIDE(name, c10::DispatchKey::QuantizedCPU, __VA_ARGS__)
CPUACCEL_OVERRIDES{
    ROW("aten::upsample_nearest2d", upsample_nearest2d,
        at::native::nearest_neighbor_compute_source_index),
    ROW("aten::_upsample_nearest_exact2d", upsample_nearest2d,
        at::native::nearest_neighbor_exact_compute_source_index),
    ROW("aten::upsample_bilinear2d", upsample_bilinear2d),
};
#undef ROW

}  // namespace

}  // namespace cpuaccel::torch_ao
