// Which numbers an op takes as an index of rows, and its error for other ones.
#pragma once

#include <ATen/core/Tensor.h>

#include <string_view>

namespace cpuaccel::ops {

struct IndexRule {
  const char* op;           // in errors
  const char* name;         // of the index, in errors
  bool wraps = false;       // a negative number counts from the end
  bool index_error = true;  // IndexError, else RuntimeError
};

// The rule of one of torch's ops that read or write rows: "index", "gather", "scatter_add" ...
// Throws in the name of `op` for any other name.
const IndexRule& index_rule_of(const char* op, std::string_view name);

// `index` as dense int64 numbers in [0, size). Throws the rule's error for the first number that it
// does not take.
at::Tensor from_start(const IndexRule& rule, const at::Tensor& index, int64_t size);

}  // namespace cpuaccel::ops
