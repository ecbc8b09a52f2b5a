#include "dnnl/slices.h"

#include <algorithm>
#include <array>
#include <cstddef>

#include "dnnl/source_rows.h"

namespace cpuaccel::dnnl_layer {
namespace {

using Dims = std::array<int64_t, 3>;

bool all_are(const Dims& dims, int spatial, int64_t value) {
  return std::all_of(dims.begin(), dims.begin() + spatial,
                     [&](int64_t each) { return each == value; });
}

// Whether each result is made of the pixel at its place.
bool is_pixelwise(const Problem& p) {
  return all_are(p.kernel, p.spatial, 1) && all_are(p.stride, p.spatial, 1) &&
         all_are(p.padding_l, p.spatial, 0) && all_are(p.padding_r, p.spatial, 0);
}

Dims in_one_row(const Dims& image, int spatial) {
  Dims dims{};
  std::fill_n(dims.begin(), spatial, 1);
  dims[static_cast<size_t>(spatial) - 1] = volume(image, spatial);
  return dims;
}

// The slices with results [first, end).
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
  const bool many = problem.N > 1, pixelwise = is_pixelwise(problem);
  const int64_t size = many        ? problem.N
                       : pixelwise ? volume(problem.dst, problem.spatial)
                                   : problem.dst[0];
  if (size < count) {
    return {};
  }
  Problem of_one_thread = problem;
  of_one_thread.threads = 1;
  of_one_thread.slices = 1;
  const auto slice_of = many ? images : pixelwise ? pixels : rows;
  std::vector<Slice> slices;
  for (int64_t i = 0; i < count; ++i) {
    slices.push_back(slice_of(of_one_thread, i * size / count, (i + 1) * size / count));
    if (volume(slices.back().problem.src, problem.spatial) <= 0) {
      return {};  // of padding alone
    }
  }
  return slices;
}

}  // namespace cpuaccel::dnnl_layer
