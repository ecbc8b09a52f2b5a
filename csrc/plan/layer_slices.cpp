#include "plan/layer_slices.h"

#include <algorithm>
#include <span>
#include <utility>

#include "dnnl/sliced_by.h"
#include "dnnl/source_rows.h"

namespace cpuaccel::plan {
namespace {

using dnnl_layer::SlicedBy;

constexpr size_t kImages = 0, kChannels = 1, kRows = 2;  // dimensions

SlicedBy sliced_by(const Shaped& layer) {
  const auto& window = layer.window;
  const auto kernel = std::span(layer.weights.sizes).last(window.strides.size());
  return dnnl_layer::sliced_by(layer.dst.sizes[kImages],
                               {kernel, window.strides, window.begin, window.end});
}

// The layout of an image whose pixels are all in one row.
TensorDesc in_one_row(const TensorDesc& image) {
  Sizes sizes(image.sizes.size(), 1);
  sizes[kChannels] = image.sizes[kChannels];
  sizes.back() = count_of(image.sizes) / image.sizes[kChannels];
  return dense(sizes, MemoryFormat::channels_last);
}

// [first, end) of a dimension of `whole`; all dimensions outside of it have size 1.
Placed part_of(const TensorDesc& whole, size_t dim, int64_t first, int64_t end) {
  Placed part{whole, first * whole.strides[dim]};
  part.desc.sizes[dim] = end - first;
  part.desc = dense(part.desc.sizes, MemoryFormat::channels_last);
  return part;
}

// The operand of a slice. An operand with the layout of the results is sliced as they are; one that
// is the same for all pixels is not sliced; nullopt for others.
std::optional<Placed> operand_of(const TensorDesc& operand, const TensorDesc& result,
                                 const Placed& slice, size_t dim) {
  if (operand.sizes == result.sizes && same_layout(operand, result)) {
    return slice;
  }
  const auto is_one = [](int64_t size) { return size == 1; };
  if (dim == kImages || !std::all_of(operand.sizes.begin() + kRows, operand.sizes.end(), is_one)) {
    return std::nullopt;
  }
  return Placed{operand};
}

// The slice of `whole` with results [first, end) of a dimension. `src` and `dst` are the layouts of
// its input and results. nullopt if the slice reads only padding.
std::optional<Shaped> slice_of(const Shaped& whole, const TensorDesc& src, const TensorDesc& dst,
                               size_t dim, int64_t first, int64_t end) {
  auto window = whole.window;
  dnnl_layer::SourceRows rows{first, end, 0, 0};
  if (dim == kRows) {
    const size_t height = whole.weights.sizes.size() - window.strides.size();
    rows = dnnl_layer::source_rows(
        {whole.weights.sizes[height], window.strides[0], window.holes[0] + 1, window.begin[0]},
        src.sizes[kRows], first, end);
    window.begin[0] = rows.before;
    window.end[0] = rows.behind;
  }
  if (rows.first >= rows.end) {
    return std::nullopt;
  }
  const auto from = part_of(src, dim, rows.first, rows.end), to = part_of(dst, dim, first, end);
  Shaped slice = whole;
  slice.src = from.desc;
  slice.src_first = from.first;
  slice.dst = to.desc;
  slice.dst_first = to.first;
  slice.window = window;
  slice.operand = [=, of_whole = whole.operand, result = whole.dst](const TensorDesc& desc) {
    const auto placed = of_whole(desc);
    return placed ? operand_of(placed->desc, result, to, dim) : std::nullopt;
  };
  slice.make = whole.remake(slice.src, slice.window, slice.dst);
  return slice;
}

}  // namespace

std::vector<Shaped> slices_of(const Shaped& whole, int64_t count) {
  if (!whole.remake || count < 2) {
    return {};
  }
  TensorDesc src = whole.src, dst = whole.dst;
  const auto by = sliced_by(whole);
  if (by == SlicedBy::pixels) {
    src = in_one_row(src);
    dst = in_one_row(dst);
  }
  const size_t dim = by == SlicedBy::images   ? kImages
                     : by == SlicedBy::pixels ? dst.sizes.size() - 1
                                              : kRows;
  const int64_t size = dst.sizes[dim];
  if (size < count) {
    return {};
  }
  std::vector<Shaped> slices;
  for (int64_t i = 0; i < count; ++i) {
    auto slice = slice_of(whole, src, dst, dim, i * size / count, (i + 1) * size / count);
    if (!slice) {
      return {};
    }
    slices.push_back(std::move(*slice));
  }
  return slices;
}

}  // namespace cpuaccel::plan
