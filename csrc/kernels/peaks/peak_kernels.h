// Loops that measure the peak rates of peaks.h, one file per ISA as for the kernels.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/isa.h"
#include "kernels/peaks/peaks.h"

namespace cpuaccel::kernels {

// Runs a loop on registers `iterations` times and returns the number of operations done.
using OperationsPeak = int64_t(int64_t iterations);

// Reads src, or copies it to dst. `bytes` is a multiple of 512; both are aligned to 64 bytes.
using BytesPeak = void(const std::byte* src, std::byte* dst, int64_t bytes);

// row(rate, name, isa), best ISA first. An ISA without a row for a rate uses that of a lower ISA.
#if defined(__x86_64__)
#define CPUACCEL_OPERATIONS_PEAKS(row)                                                            \
  row(int8, x86_avx512vnni, Isa::avx512_vnni) row(int8, x86_avx512, Isa::avx512)                  \
      row(int8, x86_avxvnni, Isa::avx_vnni) row(int8, x86_avx2, Isa::avx2)                        \
          row(int8_saturating, x86_avx512, Isa::avx512) row(int8_saturating, x86_avx2, Isa::avx2) \
              row(int8_low, x86_avx2, Isa::avx2) row(fp32, x86_avx512, Isa::avx512)               \
                  row(fp32, x86_avx2, Isa::avx2) row(bf16, x86_avx512bf16, Isa::avx512_vnni)      \
                      row(bf16_tiles, x86_amx, Isa::avx512_vnni)                                  \
                          row(int8_tiles, x86_amx, Isa::avx512_vnni) row(clock, ref, Isa::ref)
#define CPUACCEL_BYTES_PEAKS(row)                                                            \
  row(read, x86_avx512, Isa::avx512) row(copy, x86_avx512, Isa::avx512)                      \
      row(read, x86_avx2, Isa::avx2) row(copy, x86_avx2, Isa::avx2) row(read, ref, Isa::ref) \
          row(copy, ref, Isa::ref)
#elif defined(__aarch64__)
#define CPUACCEL_OPERATIONS_PEAKS(row)                                    \
  row(int8, arm64_i8mm, Isa::i8mm) row(int8, arm64_dotprod, Isa::dotprod) \
      row(bf16, arm64_i8mm, Isa::i8mm) row(fp32, arm64_neon, Isa::neon) row(clock, ref, Isa::ref)
#define CPUACCEL_BYTES_PEAKS(row)                                                            \
  row(read, arm64_neon, Isa::neon) row(copy, arm64_neon, Isa::neon) row(read, ref, Isa::ref) \
      row(copy, ref, Isa::ref)
#else
#define CPUACCEL_OPERATIONS_PEAKS(row) row(clock, ref, Isa::ref)
#define CPUACCEL_BYTES_PEAKS(row) row(read, ref, Isa::ref) row(copy, ref, Isa::ref)
#endif

#define CPUACCEL_DECLARE(rate, name, isa) OperationsPeak peak_##rate##_##name;
CPUACCEL_OPERATIONS_PEAKS(CPUACCEL_DECLARE)
#undef CPUACCEL_DECLARE
#define CPUACCEL_DECLARE(rate, name, isa) BytesPeak peak_##rate##_##name;
CPUACCEL_BYTES_PEAKS(CPUACCEL_DECLARE)
#undef CPUACCEL_DECLARE

// Empty asm statements that keep the compiler from optimizing the loops away. OPAQUE: the compiler
// must assume that the value changed, so it recomputes what depends on it. USED: the compiler must
// load or compute the value.
#define CPUACCEL_OPAQUE(constraint, value) asm volatile("" : "+" constraint(value))
#define CPUACCEL_USED(constraint, value) asm volatile("" : : constraint(value))

}  // namespace cpuaccel::kernels
