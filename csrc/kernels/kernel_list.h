// Kernel lists: rows of (name, ISA, function), best ISA first, `ref` last.
//
// A family names each of its kernels in one place, a line of its kernels.inc:
//
//   CPUACCEL_KERNEL(x86_avx2)
//
// is the kernel in x86_avx2.cpp. CMake takes the source file and its flags from the line. The
// family's header and NAME.cpp include the list to declare the functions and to fill the rows:
//
//   #define CPUACCEL_KERNEL(name) AvgpoolFunction avgpool_##name;
//   #include "kernels/avgpool/kernels.inc"
//   #undef CPUACCEL_KERNEL
//
//   constexpr std::array kRows{
//   #define CPUACCEL_KERNEL(name) CPUACCEL_ROW(KernelRow<AvgpoolFunction>, name, avgpool_##name)
//   #include "kernels/avgpool/kernels.inc"
//   #undef CPUACCEL_KERNEL
//   };
//
// Tests and benchmarks iterate over the rows.
#pragma once

#include <cstddef>
#include <span>

#include "base/isa.h"

// An element Row{"name", isa, function, ...} and a comma; nothing if the kernel is for another
// architecture.
#define CPUACCEL_ROW(Row, name, ...) CPUACCEL_ISA_##name(Row, #name, __VA_ARGS__)

#define CPUACCEL_ROW_HERE(isa, Row, name, ...) Row{name, isa, __VA_ARGS__},
#define CPUACCEL_ROW_ELSEWHERE(...)
#if defined(CPUACCEL_REFERENCE_ONLY)  // set by the build that has no kernels of an ISA
#define CPUACCEL_ROW_X86 CPUACCEL_ROW_ELSEWHERE
#define CPUACCEL_ROW_ARM64 CPUACCEL_ROW_ELSEWHERE
#elif defined(__x86_64__)
#define CPUACCEL_X86_KERNELS
#define CPUACCEL_ROW_X86 CPUACCEL_ROW_HERE
#define CPUACCEL_ROW_ARM64 CPUACCEL_ROW_ELSEWHERE
#elif defined(__aarch64__)
#define CPUACCEL_ROW_X86 CPUACCEL_ROW_ELSEWHERE
#define CPUACCEL_ROW_ARM64 CPUACCEL_ROW_HERE
#else
#define CPUACCEL_ROW_X86 CPUACCEL_ROW_ELSEWHERE
#define CPUACCEL_ROW_ARM64 CPUACCEL_ROW_ELSEWHERE
#endif

// The names of kernels: their architecture and their ISA. cmake/IsaSources.cmake has their flags.
#define CPUACCEL_ISA_ref(...) CPUACCEL_ROW_HERE(Isa::ref, __VA_ARGS__)
#define CPUACCEL_ISA_x86_avx2(...) CPUACCEL_ROW_X86(Isa::avx2, __VA_ARGS__)
#define CPUACCEL_ISA_x86_avxvnni(...) CPUACCEL_ROW_X86(Isa::avx_vnni, __VA_ARGS__)
#define CPUACCEL_ISA_x86_avx512(...) CPUACCEL_ROW_X86(Isa::avx512, __VA_ARGS__)
#define CPUACCEL_ISA_x86_avx512vnni(...) CPUACCEL_ROW_X86(Isa::avx512_vnni, __VA_ARGS__)
#define CPUACCEL_ISA_x86_avx512vbmi(...) CPUACCEL_ROW_X86(Isa::avx512_vbmi, __VA_ARGS__)
#define CPUACCEL_ISA_x86_avx512bf16(...) CPUACCEL_ROW_X86(Isa::bf16, __VA_ARGS__)
#define CPUACCEL_ISA_x86_amx(...) CPUACCEL_ROW_X86(Isa::amx, __VA_ARGS__)
#define CPUACCEL_ISA_arm64_neon(...) CPUACCEL_ROW_ARM64(Isa::neon, __VA_ARGS__)
#define CPUACCEL_ISA_arm64_dotprod(...) CPUACCEL_ROW_ARM64(Isa::dotprod, __VA_ARGS__)
#define CPUACCEL_ISA_arm64_i8mm(...) CPUACCEL_ROW_ARM64(Isa::i8mm, __VA_ARGS__)
#define CPUACCEL_ISA_arm64_sve(...) CPUACCEL_ROW_ARM64(Isa::sve, __VA_ARGS__)
#define CPUACCEL_ISA_arm64_sve256(...) CPUACCEL_ROW_ARM64(Isa::sve256, __VA_ARGS__)

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
