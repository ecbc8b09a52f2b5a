#include "dnnl/slices.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>

#include "dnnl/sliced_by.h"
#include "dnnl/source_rows.h"

namespace cpuaccel::dnnl_layer {
namespace {

using Dims = std::array<int64_t, 3>;

Dims in_one_row(const Dims& image, int spatial) {
  Dims dims{};
  std::fill_n(dims.begin(), spatial, 1);
  dims[static_cast<size_t>(spatial) - 1] = volume(image, spatial);
  return dims;
}

// The slice with results [first, end), for each way to slice.
Slice images(Problem p, int64_t first, int64_t end) {
  const int64_t src = volume(p.src, p.spatial) * p.IC, dst = volume(p.dst, p.spatial) * p.OC;
  p.N = end - first;
  return {p, first * src, first * dst};
}

Slice pixels(Problem p, int64_t first, int64_t end) {
  const auto last = static_cast<size_t>(p.spatial) - 1;
  p.src = in_one_row(p.src, p.spatial);
  p.dst = in_one_row(p.dst, p.spatial);
  p.src[last] = p.dst[last] = end - first;
  return {p, first * p.IC, first * p.OC};
}

Slice rows(Problem p, int64_t first, int64_t end) {
  const auto [from, to, before, behind] =
      source_rows({p.kernel[0], p.stride[0], p.dilation[0], p.padding_l[0]}, p.src[0], first, end);
  const int64_t src_row = volume(p.src, p.spatial) / p.src[0] * p.IC;
  const int64_t dst_row = volume(p.dst, p.spatial) / p.dst[0] * p.OC;
  p.src[0] = to - from;
  p.dst[0] = end - first;
  p.padding_l[0] = before;
  p.padding_r[0] = behind;
  return {p, from * src_row, first * dst_row};
}

}  // namespace

std::vector<Slice> slices_of(const Problem& problem) {
  const int64_t count = problem.slices;
  if (problem.kind != Kind::convolution || count < 2) {
    return {};
  }
  const auto dims = [&](const Dims& of) {
    return std::span(of).first(static_cast<size_t>(problem.spatial));
  };
  const auto by = sliced_by(problem.N, {dims(problem.kernel), dims(problem.stride),
                                        dims(problem.padding_l), dims(problem.padding_r)});
  const int64_t size = by == SlicedBy::images   ? problem.N
                       : by == SlicedBy::pixels ? volume(problem.dst, problem.spatial)
                                                : problem.dst[0];
  if (size < count) {
    return {};
  }
  Problem of_one_thread = problem;
  of_one_thread.threads = 1;
  of_one_thread.slices = 1;
  const auto slice_of = by == SlicedBy::images ? images : by == SlicedBy::pixels ? pixels : rows;
  std::vector<Slice> slices;
  for (int64_t i = 0; i < count; ++i) {
    slices.push_back(slice_of(of_one_thread, i * size / count, (i + 1) * size / count));
    if (volume(slices.back().problem.src, problem.spatial) <= 0) {
      return {};  // it reads only padding
    }
  }
  return slices;
}

}  // namespace cpuaccel::dnnl_layer
