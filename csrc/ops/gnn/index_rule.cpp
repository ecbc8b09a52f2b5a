#include "ops/gnn/index_rule.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/where.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "ops/gnn/rows.h"

namespace cpuaccel::ops {
namespace {

// The rules of torch 2.13 for an index of rows.
constexpr std::array kRules{
    IndexRule{"index", "index", true},
    IndexRule{"index_put", "index", true},
    IndexRule{"index_select", "index"},
    IndexRule{"index_add", "index", false, false},
    IndexRule{"gather", "index", false, false},
    IndexRule{"scatter_add", "index", false, false},
    IndexRule{"scatter_reduce", "index", false, false},
};

[[noreturn]] void throw_out_of_range(const IndexRule& rule, int64_t value, int64_t low,
                                     int64_t size) {
  const auto text =
      c10::str(rule.op, ": expected ", rule.name, " to be at least ", low, " and below ", size,
               ", the size of the indexed dimension, but got ", value);
  TORCH_CHECK_INDEX(!rule.index_error, text);
  TORCH_CHECK(false, text);
}

}  // namespace

const IndexRule& index_rule_of(const char* op, std::string_view name) {
  const auto* const found = std::ranges::find(kRules, name, &IndexRule::op);
  TORCH_CHECK(found != kRules.end(), op, ": expected the name of an op that takes row indices",
              ", such as index_select or scatter_add, but got ", name);
  return *found;
}

at::Tensor from_start(const IndexRule& rule, const at::Tensor& index, int64_t size) {
  const at::Tensor numbers = index.to(at::kLong).contiguous();
  if (numbers_within(numbers, 0, size)) {
    return numbers;
  }
  const int64_t low = rule.wraps ? -size : 0;
  if (!numbers_within(numbers, low, size)) {
    const auto* const begin = numbers.const_data_ptr<int64_t>();
    const auto* const bad = std::find_if(begin, begin + numbers.numel(), [&](int64_t number) {
      return number < low || number >= size;
    });
    throw_out_of_range(rule, *bad, low, size);
  }
  return at::where(numbers < 0, numbers + size, numbers);
}

}  // namespace cpuaccel::ops
