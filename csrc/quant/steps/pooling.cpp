// The plan steps q_max_pool and q_avg_pool of quantized images. Y has the quantizer of X.
//
//   op q_max_pool in X out Y    kernel=is: strides=is: padding=is: dilations=is: ceil=b:
//   op q_avg_pool in X out Y    x_*; kernel=is: strides=is: padding=is: ceil=b: count_padding=b:,
//                               or sizes=is: output sizes, as of torch's adaptive pool

#include <algorithm>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

#include "kernels/avgpool/avgpool.h"
#include "kernels/avgpool/windows.h"
#include "kernels/maxpool/maxpool.h"
#include "quant/steps/step.h"

namespace cpuaccel::quant {
namespace {

using kernels::PoolWindow;
using Ranges = std::vector<kernels::AvgpoolRange>;

void check_window(const char* op, const PoolWindow& window) {
  if (window.kernel <= 0 || window.stride <= 0 || window.dilation <= 0 || window.padding < 0 ||
      window.padding > ((window.kernel - 1) * window.dilation + 1) / 2) {
    throw std::runtime_error(op + std::string(": torch rejects this kernel, stride or padding"));
  }
}

void check_images(const Sizes& sizes) {
  if (sizes.size() != 4) {
    throw std::runtime_error("quantized pooling: the input does not have 4 dimensions");
  }
}

void add_max_pool(Building& building, const Region&, const Operation& operation) {
  const Id from = in_format(building, operation.inputs[0], MemoryFormat::channels_last);
  const auto sizes = building.desc(from).sizes;
  check_images(sizes);
  const auto get = [&](const char* name, int64_t otherwise) {
    return attribute(operation.attributes, name, List(2, otherwise));
  };
  const auto kernel = get("kernel", 1), strides = get("strides", 1), padding = get("padding", 0),
             dilations = get("dilations", 1);
  const bool ceil = attribute(operation.attributes, "ceil", false);
  const auto pooled = [&](size_t i) {
    const PoolWindow window{kernel.at(i), strides.at(i), padding.at(i), dilations.at(i)};
    check_window("q_max_pool", window);
    return kernels::pooled_size(sizes[i + 2], window, ceil);
  };
  const kernels::MaxpoolShape shape{.N = sizes[0],
                                    .H = sizes[2],
                                    .W = sizes[3],
                                    .C = sizes[1],
                                    .OH = pooled(0),
                                    .OW = pooled(1),
                                    .KH = kernel[0],
                                    .KW = kernel[1],
                                    .SH = strides[0],
                                    .SW = strides[1],
                                    .PH = padding[0],
                                    .PW = padding[1],
                                    .DH = dilations[0],
                                    .DW = dilations[1]};
  if (shape.OH <= 0 || shape.OW <= 0) {
    throw std::runtime_error("q_max_pool: the result would be empty");
  }
  const auto desc =
      plan::dense({shape.N, shape.C, shape.OH, shape.OW}, MemoryFormat::channels_last);
  add_kernel_step(
      building, std::vector{from}, operation.outputs[0], desc,
      [shape](Pointers in, Pointers out) { kernels::maxpool_u8(shape, u8(in[0]), u8(out[0])); });
}

int64_t longest(const Ranges& ranges) {
  int64_t result = 0;
  for (const auto& range : ranges) {
    result = std::max({result, range.end - range.begin, range.extent});
  }
  return result;
}

void add_avg_pool(Building& building, const Region&, const Operation& operation) {
  const Id from = in_format(building, operation.inputs[0], MemoryFormat::channels_last);
  const auto sizes = building.desc(from).sizes;
  check_images(sizes);
  const auto& attributes = operation.attributes;
  const auto adaptive = attribute(attributes, "sizes", List());
  const auto ranges = [&](size_t i) {
    if (!adaptive.empty()) {
      Ranges result(static_cast<size_t>(std::max<int64_t>(adaptive.at(i), 0)));
      kernels::adaptive_ranges(sizes[i + 2], std::ssize(result), result.data());
      return result;
    }
    const auto get = [&](const char* name) {
      return attribute(attributes, name, List(2, 0)).at(i);
    };
    const PoolWindow window{get("kernel"), get("strides"), get("padding")};
    check_window("q_avg_pool", window);
    const int64_t count =
        kernels::pooled_size(sizes[i + 2], window, attribute(attributes, "ceil", false));
    Ranges result(static_cast<size_t>(std::max<int64_t>(count, 0)));
    kernels::window_ranges(sizes[i + 2], window, attribute(attributes, "count_padding", true),
                           std::ssize(result), result.data());
    return result;
  };
  const auto rows = ranges(0), columns = ranges(1);
  if (rows.empty() || columns.empty() ||
      longest(rows) * longest(columns) >= kernels::kAvgpoolLimit) {
    throw std::runtime_error("q_avg_pool: a window has no pixels, or more than 32767");
  }
  kernels::AvgpoolCall call{
      .N = sizes[0],
      .H = sizes[2],
      .W = sizes[3],
      .C = sizes[1],
      .OH = static_cast<int64_t>(rows.size()),
      .OW = static_cast<int64_t>(columns.size()),
      .zero_point = value_quantizer(operation, "x").zero_point,
      .halves = adaptive.empty() ? kernels::AvgpoolHalves::even_steps : kernels::halves_of_means(),
  };
  const auto desc = plan::dense({call.N, call.C, call.OH, call.OW}, MemoryFormat::channels_last);
  add_kernel_step(building, std::vector{from}, operation.outputs[0], desc,
                  [call, rows, columns](Pointers in, Pointers out) {
                    auto now = call;
                    now.rows = rows.data();
                    now.columns = columns.data();
                    kernels::avgpool_u8(now, u8(in[0]), u8(out[0]));
                  });
}

const RegisterStep kMaxPool("q_max_pool", add_max_pool);
const RegisterStep kAvgPool("q_avg_pool", add_avg_pool);

}  // namespace
}  // namespace cpuaccel::quant
