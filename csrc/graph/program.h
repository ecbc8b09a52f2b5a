// What a piece of a compiled model computes, as text that Python writes and this reads.
//
//   graph 1
//   value ID TYPE SIZES            sizes as 1x3x224x224, "-" for a scalar: those it was traced with
//   input ID...                    in the order of the tensors that a call brings
//   constant ID...                 the same; their bytes do not change between calls
//   output ID ORDER                contiguous or channels_last
//   prepare NAME in ID... out ID... [ATTRIBUTE=...]   constants made of constants, once
//   partition                      what follows runs as one oneDNN Graph partition
//   op KIND in ID... out ID... [ATTRIBUTE=TYPE:VALUE,VALUE...]
//
// KIND, ATTRIBUTE: names of the oneDNN Graph specification; or a kind of ours (own.h), alone in its
// partition, with attributes of its own. TYPE of a value: f32, bf16, f16, u8, s8 or s32, or "other"
// of a constant that only preparations read; of an attribute: f, fs, i, is, b or s (one or several
// floats or integers, a boolean, a string). Partitions stand in an order in which each finds what
// it reads.
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

#include "dnnl/api.h"

namespace cpuaccel::graph {

using Id = int64_t;
using Sizes = std::vector<int64_t>;
using DataType = dnnl::graph::logical_tensor::data_type;

struct Value {
  DataType type;
  Sizes sizes;  // those the program was traced with; others of the same rank may come
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
  std::optional<dnnl::graph::op::kind> kind;  // none: one of ours
  std::string name;                           // of the kind
  std::vector<Id> inputs, outputs;
  Attributes attributes;
};

inline bool reads(const Operation& operation, Id id) {
  return std::find(operation.inputs.begin(), operation.inputs.end(), id) != operation.inputs.end();
}

// Constants made of constants, before anything is run, by who knows `name`.
struct Preparation {
  std::string name;
  std::vector<Id> inputs, outputs;
  Attributes attributes;
};

struct Partition {
  std::vector<Operation> operations;
};

enum class Order { contiguous, channels_last };

struct Output {
  Id id;
  Order order;
};

struct Program {
  std::unordered_map<Id, Value> values;
  std::vector<Id> inputs, constants;
  std::vector<Output> outputs;
  std::vector<Preparation> preparations;
  std::vector<Partition> partitions;

  const Value& value(Id id) const { return values.at(id); }
  // The constants that a call brings, and then those that are made of them.
  std::vector<Id> all_constants() const;
};

// Throws std::invalid_argument, which names the line, where `text` is no such program: a word that
// is not known, a value that nobody makes, or one that is made twice.
Program parse_program(std::string_view text);

}  // namespace cpuaccel::graph
