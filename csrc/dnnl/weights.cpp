#include "dnnl/weights.h"

#include <vector>

#include "base/huge_page_block.h"
#include "dnnl/describe.h"
#include "dnnl/primitive.h"

namespace cpuaccel::dnnl_layer {
namespace {

using dnnl::memory;

// Offset of the element at `index` in a blocked layout (see oneDNN's "Understanding Memory
// Formats"). Inner blocks are split off the index from the innermost outwards; the rest is
// multiplied by the strides.
int64_t blocked_offset(const std::vector<int64_t>& index, const memory::dims& strides,
                       const memory::dims& inner_blocks, const memory::dims& inner_indices) {
  std::vector<int64_t> position = index;
  int64_t offset = 0;
  int64_t inner_stride = 1;
  for (size_t i = inner_blocks.size(); i-- > 0;) {
    const auto dim = static_cast<size_t>(inner_indices[i]);
    offset += position[dim] % inner_blocks[i] * inner_stride;
    position[dim] /= inner_blocks[i];
    inner_stride *= inner_blocks[i];
  }
  for (size_t dim = 0; dim < position.size(); ++dim) {
    offset += position[dim] * strides[dim];
  }
  return offset;
}

}  // namespace

memory::desc plain_weights_desc(const Problem& p) {
  if (p.kind == Kind::matmul) {
    return {{p.IC, p.OC}, memory::data_type::s8, memory::dims{1, p.IC}};
  }
  const int64_t taps = volume(p.kernel, p.spatial);
  const int64_t oc = p.OC / p.groups;
  const int64_t ic = p.IC / p.groups;
  memory::dims dims, strides;
  // torch has the groups in the first dimension: of OC for a convolution, of IC when transposed.
  const bool transposed = p.kind == Kind::deconvolution;
  if (p.groups > 1) {
    dims.push_back(p.groups);
    strides.push_back(oc * ic * taps);
  }
  dims.insert(dims.end(), {oc, ic});
  strides.insert(strides.end(), {transposed ? taps : ic * taps, transposed ? oc * taps : taps});
  int64_t stride = taps;
  for (int i = 0; i < p.spatial; ++i) {
    stride /= p.kernel[static_cast<size_t>(i)];
    dims.push_back(p.kernel[static_cast<size_t>(i)]);
    strides.push_back(stride);
  }
  return {dims, memory::data_type::s8, strides};
}

PackedWeights::PackedWeights(const Problem& problem, const int8_t* plain, const memory::desc& desc)
    : desc_(desc), data_(huge_page_block(desc.get_size())) {
  memory from(plain_weights_desc(problem), engine(), const_cast<int8_t*>(plain));
  memory to(desc_, engine(), data_.get());
  dnnl::reorder(from, to).execute(stream(), from, to);
  stream().wait();
}

void PackedWeights::unpack(const Problem& problem, int8_t* plain) const {
  const memory::desc plain_desc = plain_weights_desc(problem);
  const memory::dims dims = desc_.get_dims();
  const memory::dims strides = desc_.get_strides();
  const memory::dims inner_blocks = desc_.get_inner_blks();
  const memory::dims inner_indices = desc_.get_inner_idxs();
  const memory::dims plain_strides = plain_desc.get_strides();
  const auto* packed = reinterpret_cast<const int8_t*>(data_.get());
  std::vector<int64_t> index(dims.size(), 0);
  int64_t count = 1;
  for (const int64_t dim : dims) {
    count *= dim;
  }
  for (int64_t n = 0; n < count; ++n) {
    int64_t to = 0;
    for (size_t dim = 0; dim < index.size(); ++dim) {
      to += index[dim] * plain_strides[dim];
    }
    plain[to] = packed[blocked_offset(index, strides, inner_blocks, inner_indices)];
    for (size_t dim = index.size(); dim-- > 0;) {
      if (++index[dim] < dims[dim]) {
        break;
      }
      index[dim] = 0;
    }
  }
}

}  // namespace cpuaccel::dnnl_layer
