// The text format of a region (a subgraph that runs as one custom op), and its parser. Python
// writes the text.
//
//   graph 1
//   value ID TYPE SIZES            traced sizes as 1x3x224x224, "-" for a scalar
//   input ID...                    in the order of the tensors that a call passes
//   constant ID...                 the same; their bytes do not change between calls
//   output ID ORDER                contiguous or channels_last
//   prepare NAME in ID... out ID... [ATTRIBUTE=...]   constants computed from constants, once
//   partition                      the ops that follow run as one oneDNN Graph partition
//   op KIND in ID... out ID... [ATTRIBUTE=TYPE:VALUE,VALUE...]
//
// KIND and ATTRIBUTE are names of the oneDNN Graph specification. Or KIND is a registered one
// (step_registry.h), which is alone in its partition and has other attributes. TYPE of a value:
// f32, bf16, f16, u8, s8 or s32, or "other" for a constant that only preparations read; of an
// attribute: f, fs, i, is, b or s (one or several floats or integers, a boolean, a string). A
// partition comes after those that compute its inputs.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <variant>
#include <vector>

#include "base/api.h"
#include "base/data_type.h"
#include "dnnl/api.h"

namespace cpuaccel::plan {

using Id = int64_t;
using Sizes = std::vector<int64_t>;

struct Value {
  DataType type;
  Sizes sizes;  // traced ones; a call may bring others of the same rank
};

using AttributeValue =
    std::variant<float, std::vector<float>, int64_t, std::vector<int64_t>, bool, std::string>;

using Attributes = std::map<std::string, AttributeValue, std::less<>>;

// The value of an attribute, or `otherwise`.
template <class T>
T attribute(const Attributes& attributes, std::string_view name, T otherwise) {
  const auto found = attributes.find(name);
  return found == attributes.end() ? otherwise : std::get<T>(found->second);
}

struct Operation {
  std::optional<dnnl::graph::op::kind> kind;  // nullopt: a registered one
  std::string name;                           // of the kind
  std::vector<Id> inputs, outputs;
  Attributes attributes;
};

inline bool reads(const Operation& operation, Id id) {
  return std::find(operation.inputs.begin(), operation.inputs.end(), id) != operation.inputs.end();
}

// Computes constants from constants before the first run. `name` says which computation it is.
struct Preparation {
  std::string name;
  std::vector<Id> inputs, outputs;
  Attributes attributes;
};

struct Partition {
  std::vector<Operation> operations;
};

enum class MemoryFormat { contiguous, channels_last };

struct Output {
  Id id;
  MemoryFormat format;
};

struct CPUACCEL_API Region {
  std::unordered_map<Id, Value> values;
  std::vector<Id> inputs, constants;
  std::vector<Output> outputs;
  std::vector<Preparation> preparations;
  std::vector<Partition> partitions;

  const Value& value(Id id) const { return values.at(id); }
  // The constants that a call passes, then those that preparations compute.
  std::vector<Id> all_constants() const;
  // Whether a value is an output, or partitions other than the one with this number read it.
  bool is_read_outside(Id id, size_t partition) const;
};

// Throws std::invalid_argument, which names the line, if `text` is no valid region: an unknown
// word, a value that nothing computes, or a value that is computed twice.
CPUACCEL_API Region parse_region(std::string_view text);

}  // namespace cpuaccel::plan
