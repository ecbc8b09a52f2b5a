// Kernel lists: rows of (name, ISA, function), best ISA first, `ref` last.
#pragma once

#include <cstddef>
#include <span>

#include "base/isa.h"

namespace cpuaccel::kernels {

template <typename Function>
struct KernelRow {
  const char* name;
  Isa isa;
  Function* function;
};

// The first row whose ISA may be used. `rows` ends with a row for Isa::ref, which may always be
// used.
template <typename Function>
const KernelRow<Function>& first_usable(std::span<const KernelRow<Function>> rows) {
  for (const auto& row : rows) {
    if (isa_usable(row.isa)) {
      return row;
    }
  }
  return rows.back();
}

}  // namespace cpuaccel::kernels
