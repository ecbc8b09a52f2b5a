// The plan step q_concat: concatenation of quantized tensors along an axis.
//
//   op q_concat in X... out Y    axis=i:; tables=is: 256 entries each; table_of=is: for each X its
//                                table, or -1 if it has the quantizer of Y

#include <algorithm>
#include <functional>
#include <numeric>
#include <stdexcept>

#include "kernels/concat/concat.h"
#include "kernels/lookup_table/lookup_table.h"
#include "quant/steps/step.h"

namespace cpuaccel::quant {
namespace {

// Dimensions from the slowest to the fastest.
std::vector<size_t> memory_order(size_t rank, MemoryFormat format) {
  std::vector<size_t> dims(rank);
  std::iota(dims.begin(), dims.end(), size_t{0});
  if (format == MemoryFormat::channels_last && rank > 2) {
    std::rotate(dims.begin() + 1, dims.begin() + 2, dims.end());
  }
  return dims;
}

struct Lines {
  int64_t rows = 1;
  List columns;  // of each part
};

// The parts as matrices whose rows are concatenated.
Lines lines_of(const std::vector<Sizes>& parts, size_t axis, MemoryFormat format) {
  Lines result;
  const auto dims = memory_order(parts[0].size(), format);
  const auto place = std::find(dims.begin(), dims.end(), axis);
  for (auto dim = dims.begin(); dim != place; ++dim) {
    result.rows *= parts[0][*dim];
  }
  for (const auto& part : parts) {
    int64_t columns = 1;
    for (auto dim = place; dim != dims.end(); ++dim) {
      columns *= part[*dim];
    }
    result.columns.push_back(columns);
  }
  return result;
}

void add_concat(Building& building, const Region&, const Operation& operation) {
  const auto& attributes = operation.attributes;
  const auto axis = static_cast<size_t>(attribute(attributes, "axis", int64_t{0}));
  const auto entries = attribute(attributes, "tables", List());
  const auto table_of = attribute(attributes, "table_of", List());
  const auto format = format_to_have(building.desc(operation.inputs[0]));
  std::vector<Id> inputs;
  std::vector<Sizes> parts;
  for (const Id id : operation.inputs) {
    inputs.push_back(in_format(building, id, format));
    parts.push_back(building.desc(id).sizes);
  }
  auto sizes = parts[0];
  sizes[axis] = 0;
  for (const auto& part : parts) {
    sizes[axis] += part[axis];
  }
  const auto lines = lines_of(parts, axis, format);
  std::vector<uint8_t> tables(entries.begin(), entries.end());
  add_kernel_step(building, inputs, operation.outputs[0], plan::dense(sizes, format),
                  [lines, table_of, tables = std::move(tables)](Pointers in, Pointers out) {
                    std::vector<kernels::ConcatPart> sources;
                    for (size_t i = 0; i < in.size(); ++i) {
                      const auto* table =
                          table_of[i] < 0 ? nullptr
                                          : tables.data() + table_of[i] * kernels::kTableEntries;
                      sources.push_back({u8(in[i]), lines.columns[i], lines.columns[i], table});
                    }
                    kernels::concat_u8(sources, u8(out[0]), lines.rows);
                  });
}

const RegisterStep kConcat("q_concat", add_concat);

}  // namespace
}  // namespace cpuaccel::quant
