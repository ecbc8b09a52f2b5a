#include "kernels/gemm/edges.h"

#include <algorithm>

#include "base/cache.h"
#include "base/scratch.h"
#include "kernels/gemm/blocking.h"
#include "kernels/gemm/half.h"

namespace cpuaccel::kernels {
namespace {

// Rows of a copy are padded by a cache line, so that rows of 1 KiB do not all map to the same sets
// of L1.
constexpr int64_t kRowPadding = 16;

float* floats(ScratchSlot slot, int64_t count) {
  return static_cast<float*>(scratch(slot, static_cast<size_t>(count) * sizeof(float)));
}

// Rows at a multiple of this share their sets of L1 (4 KiB). At half of it a tile's rows are in two
// groups of sets, which have room for them, and a copy would cost more.
constexpr int64_t kAliasing = 1024;

// Whether a tile's rows evict each other from L1.
bool push_each_other_out(const GemmKernels& kernels, int64_t stride) {
  return stride % kAliasing == 0 && kernels.mr > l1_ways();
}

}  // namespace

const char* matrix_at(const GemmMatrix& matrix, int64_t g, int64_t row, int64_t column) {
  const int64_t index =
      g * matrix.batch_stride + row * matrix.row_stride + column * matrix.column_stride;
  return static_cast<const char*>(matrix.data) + index * data_type_size(matrix.type);
}

void pack_panels(const GemmCall& call, const GemmKernels& kernels, const PanelBlock& block) {
  if (call.pack_b.write != nullptr) {
    call.pack_b.write(call.pack_b.context, block);
    return;
  }
  const GemmMatrix& b = call.b;
  kernels.panels({matrix_at(b, block.g, block.k0, block.n0), b.type, b.row_stride, b.column_stride,
                  block.kc, block.nc, block.panels, 0},
                 block.nr);
}

GemmPrefetch panels_source(const GemmCall& call, const PanelBlock& block) {
  const PackPanels& other = call.pack_b;
  if (other.write != nullptr) {
    return other.source != nullptr ? other.source(other.context, block) : GemmPrefetch{};
  }
  return matrix_source(call.b, block.g, block.k0, block.kc, block.n0, block.nc);
}

GemmPrefetch matrix_source(const GemmMatrix& matrix, int64_t g, int64_t k0, int64_t kc, int64_t n0,
                           int64_t nc) {
  const int64_t size = data_type_size(matrix.type);
  const char* data = matrix_at(matrix, g, k0, n0);
  if (matrix.row_stride == 1) {
    return {data, nc, kc * size, matrix.column_stride * size};
  }
  if (matrix.column_stride == 1) {
    return {data, kc, nc * size, matrix.row_stride * size};
  }
  return {};
}

GemmRows rows(const GemmCall& call, const GemmKernels& kernels, const RowBlock& block,
              bool reused) {
  const GemmMatrix& a = call.a;
  const bool other = call.pack_a.write != nullptr;
  if (!other && a.type == DataType::f32 && a.column_stride == 1 &&
      (!reused || !push_each_other_out(kernels, a.row_stride))) {
    return {reinterpret_cast<const float*>(matrix_at(a, block.g, block.m0, block.k0)),
            a.row_stride};
  }
  const int64_t stride = round_up(block.kc, kRowPadding) + kRowPadding;
  float* copy = floats(ScratchSlot::gemm_a, block.mc * stride);
  if (other) {
    RowBlock destination = block;
    destination.rows = copy;
    destination.stride = stride;
    call.pack_a.write(call.pack_a.context, destination);
  } else {
    kernels.load({matrix_at(a, block.g, block.m0, block.k0), a.type, a.row_stride, a.column_stride,
                  block.mc, block.kc, copy, stride});
  }
  return {copy, stride};
}

GemmRows columns(const GemmCall& call, const GemmKernels& kernels, int64_t g) {
  const GemmMatrix& b = call.b;
  if (b.type == DataType::f32 && b.row_stride == 1) {
    return {reinterpret_cast<const float*>(matrix_at(b, g, 0, 0)), b.column_stride};
  }
  const int64_t stride = round_up(call.K, kRowPadding) + kRowPadding;
  float* copy = floats(ScratchSlot::gemm_a, call.N * stride);
  kernels.load(
      {matrix_at(b, g, 0, 0), b.type, b.column_stride, b.row_stride, call.N, call.K, copy, stride});
  return {copy, stride};
}

GemmResult::GemmResult(const GemmCall& call, const GemmKernels& kernels, const GemmArea& area)
    : call_(call), kernels_(kernels), area_(area) {
  if (call.dst.type == DataType::f32) {
    data_ = reinterpret_cast<float*>(dst_row(0));
    stride_ = call.dst.row_stride;
  } else {
    stride_ = round_up(area.n, kRowPadding);
    data_ = floats(ScratchSlot::gemm_dst, area.m * stride_);
  }
}

char* GemmResult::dst_row(int64_t m) const {
  const GemmDst& dst = call_.dst;
  const int64_t index = area_.g * dst.batch_stride + (area_.m0 + m) * dst.row_stride + area_.n0;
  return static_cast<char*>(dst.data) + index * data_type_size(dst.type);
}

bool GemmResult::start() const {
  const bool scaled = call_.beta != 0.0f;
  if (scaled) {
    load_c();
  }
  if (call_.bias.axis != GemmBiasAxis::none) {
    add_bias(scaled);
    return true;
  }
  return scaled;
}

void GemmResult::load_c() const {
  const bool own = call_.c.data == nullptr;
  const GemmDst& dst = call_.dst;
  const GemmMatrix c =
      own ? GemmMatrix{dst.data, dst.type, dst.row_stride, 1, dst.batch_stride} : call_.c;
  const void* src = matrix_at(c, area_.g, area_.m0, area_.n0);
  if (src != data_ || c.row_stride != stride_ || c.column_stride != 1) {
    kernels_.load({src, c.type, c.row_stride, c.column_stride, area_.m, area_.n, data_, stride_});
  }
  if (call_.beta == 1.0f) {
    return;
  }
  for (int64_t m = 0; m < area_.m; ++m) {
    float* row = data_ + m * stride_;
    for (int64_t n = 0; n < area_.n; ++n) {
      row[n] *= call_.beta;
    }
  }
}

void GemmResult::add_bias(bool add) const {
  if (call_.bias.axis == GemmBiasAxis::m) {
    add_bias_by_row(add);
    return;
  }
  const GemmBias& bias = call_.bias;
  constexpr int64_t kAtOnce = 256;
  float values[kAtOnce];
  const int64_t size = data_type_size(bias.type);
  for (int64_t n0 = 0; n0 < area_.n; n0 += kAtOnce) {
    const int64_t count = std::min(kAtOnce, area_.n - n0);
    const char* src = static_cast<const char*>(bias.data) + (area_.n0 + n0) * size;
    kernels_.load({src, bias.type, 0, 1, 1, count, values, count});
    for (int64_t m = 0; m < area_.m; ++m) {
      float* row = data_ + m * stride_ + n0;
      if (!add) {
        std::copy_n(values, count, row);
        continue;
      }
      for (int64_t n = 0; n < count; ++n) {
        row[n] += values[n];
      }
    }
  }
}

void GemmResult::add_bias_by_row(bool add) const {
  const GemmBias& bias = call_.bias;
  for (int64_t m = 0; m < area_.m; ++m) {
    float* row = data_ + m * stride_;
    const float value = element_to_float(bias.data, bias.type, area_.m0 + m);
    for (int64_t n = 0; n < area_.n; ++n) {
      row[n] = (add ? row[n] : 0.0f) + value;
    }
  }
}

const float* GemmResult::bias_by_column() const {
  const auto& [data, type, axis] = call_.bias;
  const char* src = static_cast<const char*>(data) + area_.n0 * data_type_size(type);
  if (type == DataType::f32) {
    return reinterpret_cast<const float*>(src);
  }
  float* copy = floats(ScratchSlot::gemm_bias, area_.n);
  kernels_.load({src, type, 0, 1, 1, area_.n, copy, area_.n});
  return copy;
}

GemmStart GemmResult::tile_start() const {
  const GemmMatrix& c = call_.c;
  const bool is_rows = c.data != nullptr && c.type == DataType::f32 && c.column_stride == 1;
  const bool is_dst = c.data == nullptr && call_.dst.type == DataType::f32;
  const bool is_read = call_.beta == 1.0f && (is_rows || is_dst);
  if ((call_.beta != 0.0f && !is_read) || call_.bias.axis == GemmBiasAxis::m) {
    return start() ? start_of_dst() : GemmStart{};
  }
  GemmStart from;
  if (is_read && is_dst) {
    from = start_of_dst();
  } else if (is_read) {
    from = {reinterpret_cast<const float*>(matrix_at(c, area_.g, area_.m0, area_.n0)),
            c.row_stride};
  }
  if (call_.bias.axis == GemmBiasAxis::n) {
    from.bias = bias_by_column();
  }
  return from;
}

GemmStart GemmResult::resume() const {
  if (call_.dst.type != DataType::f32) {
    kernels_.load(
        {dst_row(0), call_.dst.type, call_.dst.row_stride, 1, area_.m, area_.n, data_, stride_});
  }
  return start_of_dst();
}

void GemmResult::clear() const {
  for (int64_t m = 0; m < area_.m; ++m) {
    std::fill_n(data_ + m * stride_, area_.n, 0.0f);
  }
}

void GemmResult::finish(bool last) const {
  if (const GemmAfter& after = call_.after; last && after.run != nullptr) {
    for (int64_t m = 0; m < area_.m; ++m) {
      after.run(after.context, data_ + m * stride_, area_.n);
    }
  }
  if (call_.dst.type == DataType::f32) {
    return;
  }
  for (int64_t m = 0; m < area_.m; ++m) {
    kernels_.store(data_ + m * stride_, area_.n, dst_row(m), call_.dst.type);
  }
}

}  // namespace cpuaccel::kernels
