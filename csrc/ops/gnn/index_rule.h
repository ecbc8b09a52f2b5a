// Index bounds of torch's indexing ops: whether negative indices wrap, and the error for an index
// out of range.
#pragma once

#include <ATen/core/Tensor.h>

#include <string_view>

namespace cpuaccel::ops {

struct IndexRule {
  const char* op;           // in errors
  const char* name;         // the index argument, in errors
  bool wraps = false;       // a negative number counts from the end
  bool index_error = true;  // IndexError, else RuntimeError
};

// The rule of a torch op that reads or writes rows: "index", "gather", "scatter_add" ... Throws in
// the name of `op` for any other name.
const IndexRule& index_rule_of(const char* op, std::string_view name);

// `index` as a dense int64 tensor with values in [0, size). Throws the rule's error for the first
// invalid index.
at::Tensor from_start(const IndexRule& rule, const at::Tensor& index, int64_t size);

}  // namespace cpuaccel::ops
