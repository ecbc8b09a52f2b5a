// Family lookup_table: maps bytes through a table of 256 entries. Any function of one uint8 operand
// is such a table.
//
//   dst[i] = table[src[i]]
//
// In place (src == dst) is allowed, other overlap is not. `table` has 256 bytes.
// Bound: 1 byte read and 1 written per element; 16 shuffles per vector without VBMI.
#pragma once

#include <cstdint>
#include <span>

#include "base/api.h"
#include "kernels/kernel_list.h"

namespace cpuaccel::kernels {

inline constexpr int64_t kTableEntries = 256;

using LookupTableFunction = void(const uint8_t* src, uint8_t* dst, int64_t count,
                                 const uint8_t* table);

#define CPUACCEL_KERNEL(name) LookupTableFunction lookup_table_##name;
#include "kernels/lookup_table/kernels.inc"
#undef CPUACCEL_KERNEL

std::span<const KernelRow<LookupTableFunction>> lookup_table_kernels();

// Runs the best usable row on all of torch's threads.
CPUACCEL_API void lookup_table_u8(const uint8_t* src, uint8_t* dst, int64_t count,
                                  const uint8_t* table);

}  // namespace cpuaccel::kernels
