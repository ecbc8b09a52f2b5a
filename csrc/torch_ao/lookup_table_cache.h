// Cache of the lookup tables of 8-bit ops: one table for each op, its arguments and a quantizer.
#pragma once

#include <c10/core/Scalar.h>
#include <c10/core/ScalarType.h>

#include <array>
#include <bit>
#include <cstdint>
#include <functional>
#include <string_view>

#include "ops/torch_compat/tensors.h"

namespace cpuaccel::torch_ao {

struct LookupTable {
  alignas(64) std::array<uint8_t, 256> entries{};
  double scale = 0.0;  // of the result
  int64_t zero_point = 0;
};

// What a table depends on.
struct LookupTableKey {
  static constexpr size_t kWords = 8;

  const void* op = nullptr;
  double scale = 0.0;  // of the operand
  int64_t zero_point = 0;
  c10::ScalarType dtype = c10::ScalarType::Undefined;
  std::array<uint64_t, kWords> words{};  // the other arguments
  size_t used = 0;

  bool operator==(const LookupTableKey&) const = default;

  void add(double value) { words.at(used++) = std::bit_cast<uint64_t>(value); }
  void add(int64_t value) { words.at(used++) = static_cast<uint64_t>(value); }
  void add(bool value) { words.at(used++) = value ? 1 : 0; }
  void add(std::string_view text) { words.at(used++) = std::hash<std::string_view>{}(text); }
  void add(const c10::Scalar& value) {
    add(static_cast<int64_t>(value.type()));
    if (value.isFloatingPoint()) {
      add(value.toDouble());
    } else {
      add(value.toLong());
    }
  }
};

// The calling thread's table for `key`, made by `make` if it is not cached; valid until the
// thread's next call. A thread caches at most 256 tables, some 100 KiB.
const LookupTable& cached_lookup_table(const LookupTableKey& key,
                                       c10::function_ref<LookupTable()> make);

}  // namespace cpuaccel::torch_ao
