#include "plan/facts.h"

#include <algorithm>
#include <array>
#include <functional>
#include <numeric>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "plan/build.h"

namespace cpuaccel::plan {
namespace {

double count(const Sizes& sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), 1.0, std::multiplies<>());
}

std::string text_of(const Sizes& sizes) {
  std::string text;
  for (const int64_t size : sizes) {
    text += (text.empty() ? "" : "x") + std::to_string(size);
  }
  return text.empty() ? "scalar" : text;
}

double bytes(const Building& building, Id id) {
  return count(building.desc(id).sizes) * static_cast<double>(data_type_size(building.type(id)));
}

// Whether `input` is the first input of an operation that only writes its second input to a slice
// of it, in place.
bool is_only_overwritten(const Building& building, const Operation& operation, Id input) {
  return input == operation.inputs.front() && building.is_in_place(operation.outputs[0], input);
}

// Sizes of an operation's inputs and of its result.
struct Operands {
  const Sizes& src;
  const Sizes& second;
  const Sizes& dst;
  const Attributes& attributes;
};

// Multiply-adds of a convolution: each element of `pixels` is multiplied by the weights of one
// channel of their first dimension.
double of_pixels(const Sizes& pixels, const Sizes& weights) {
  return count(pixels) * count(weights) / static_cast<double>(std::max<int64_t>(weights[0], 1));
}

double of_convolution(const Operands& o) {
  return of_pixels(attribute(o.attributes, "transposed", false) ? o.src : o.dst, o.second);
}

double of_transposed(const Operands& o) { return of_pixels(o.src, o.second); }

double of_product(const Operands& o) {
  if (o.src.size() < 2) {
    return count(o.dst) * count(o.src);
  }
  const size_t K = o.src.size() - (attribute(o.attributes, "transpose_a", false) ? 2 : 1);
  return count(o.dst) * static_cast<double>(o.src[K]);
}

// Query times keys, and then scores times values.
double of_attention(const Operands& o) {
  return 2.0 * count(o.src) * static_cast<double>(o.second[2]);
}

// The same for keys whose positions are their last dimension.
double of_quantized_attention(const Operands& o) {
  return 2.0 * count(o.src) * static_cast<double>(o.second.back());
}

using MultiplyAdds = double(const Operands&);
constexpr std::array<std::pair<std::string_view, MultiplyAdds*>, 10> kLayers{{
    {"Convolution", of_convolution},
    {"ConvTranspose", of_transposed},
    {"MatMul", of_product},
    {"q_conv", of_convolution},
    {"q_linear", of_product},
    {"q_linear_dynamic", of_product},
    {"int8_linear", of_product},
    {"intx_linear", of_product},
    {"attention", of_attention},
    {"q_attention", of_quantized_attention},
}};

}  // namespace

StepFacts facts_of(const Building& building, const Partition& partition, const Step& step) {
  StepFacts facts;
  std::unordered_set<Id> inside;
  for (const auto& operation : partition.operations) {
    inside.insert(operation.outputs.begin(), operation.outputs.end());
  }
  std::unordered_set<Id> read;
  for (const auto& operation : partition.operations) {
    facts.kinds += (facts.kinds.empty() ? "" : "+") + operation.name;
    for (const Id id : operation.inputs) {
      if (!inside.contains(id) && read.insert(id).second &&
          !is_only_overwritten(building, operation, id)) {
        facts.bytes_read += bytes(building, id);
      }
    }
  }
  const auto& first = partition.operations.front();
  const Id src = first.inputs.front(), dst = partition.operations.back().outputs.front();
  facts.type = building.type(src);
  if (is_only_overwritten(building, first, src)) {
    facts.bytes_written = bytes(building, first.inputs[1]);
  } else {
    for (const Id id : step.outputs) {
      facts.bytes_written += inside.contains(id) ? bytes(building, id) : 0;
    }
  }
  facts.sizes = text_of(building.desc(src).sizes);
  const auto layer = std::find_if(kLayers.begin(), kLayers.end(),
                                  [&](const auto& row) { return row.first == first.name; });
  // Post-ops have the sizes of the layer's result.
  if (layer != kLayers.end()) {
    const auto& second = building.desc(first.inputs[1]).sizes;
    facts.sizes += " * " + text_of(second);
    facts.multiply_adds = layer->second(
        {building.desc(src).sizes, second, building.desc(dst).sizes, first.attributes});
  }
  facts.sizes += " -> " + text_of(building.desc(dst).sizes);
  facts.type = step.arithmetic.value_or(facts.type);
  facts.bytes_read = step.moved_bytes.value_or(step.read_bytes.value_or(facts.bytes_read));
  facts.bytes_written = step.moved_bytes.value_or(facts.bytes_written);
  return facts;
}

StepFacts facts_of_copy(const Building& building, const Step& step) {
  StepFacts facts;
  facts.kinds = "copy";
  const Id src = step.inputs.front(), dst = step.outputs.front();
  facts.type = building.type(src);
  facts.sizes = text_of(building.desc(src).sizes) + " -> " + text_of(building.desc(dst).sizes);
  facts.bytes_read = bytes(building, src);
  facts.bytes_written = bytes(building, dst);
  return facts;
}

}  // namespace cpuaccel::plan
