// Family table: maps bytes through a table of 256 entries. Any function of one uint8 operand is
// such a table.
//
//   dst[i] = table[src[i]]
//
// In place (src == dst) is allowed, other overlap is not. `table` has 256 bytes.
// Bound: 1 byte read and 1 written per element; 16 shuffles per vector without VBMI.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/kernel_list.h"

namespace cpuaccel::kernels {

inline constexpr int64_t kTableEntries = 256;

using TableFunction = void(const uint8_t* src, uint8_t* dst, int64_t count, const uint8_t* table);

#if defined(__x86_64__)
#define CPUACCEL_TABLE_KERNELS(row)                                                           \
  row(x86_avx512vbmi, Isa::avx512_vbmi) row(x86_avx512, Isa::avx512) row(x86_avx2, Isa::avx2) \
      row(ref, Isa::ref)
#elif defined(__aarch64__)
#define CPUACCEL_TABLE_KERNELS(row) row(arm64_neon, Isa::neon) row(ref, Isa::ref)
#else
#define CPUACCEL_TABLE_KERNELS(row) row(ref, Isa::ref)
#endif

#define CPUACCEL_DECLARE(name, isa) TableFunction table_##name;
CPUACCEL_TABLE_KERNELS(CPUACCEL_DECLARE)
#undef CPUACCEL_DECLARE

std::span<const KernelRow<TableFunction>> table_kernels();

// Runs the best usable row on all of torch's threads.
void table_u8(const uint8_t* src, uint8_t* dst, int64_t count, const uint8_t* table);

}  // namespace cpuaccel::kernels
