// Family checksum: a 64-bit checksum that shows whether a buffer has changed.
//
// The bytes are read as 32-bit words; the last block is padded with zeros. For a block of 64 words:
//
//   sum over i of (w[2i] + key[2i]) * (w[2i+1] + key[2i+1]) + w[2i] + 2^32 * w[2i+1]   mod 2^64
//
// with the inner sums mod 2^32. The products are NH of UMAC (Black, Halevi, Krawczyk, Krovetz,
// Rogaway, CRYPTO 1999). The words themselves are added so that a change of one word is missed only
// for a few values of its partner word. A block's sum is added to the previous result times a
// factor, so that the order of blocks counts; so does the length. Every row gives the same number.
// Bound: 1 byte read per byte.
#pragma once

#include <cstdint>
#include <span>

#include "base/api.h"
#include "kernels/kernel_list.h"

namespace cpuaccel::kernels {

// The checksum of `blocks` whole blocks.
using ChecksumFunction = uint64_t(const uint8_t* src, int64_t blocks);

inline constexpr int64_t kChecksumBlock = 256;  // bytes

// Odd, so that the multiplication loses no bits. Hex digits of e; the keys are hex digits of pi.
inline constexpr uint64_t kChecksumFactor = 0x2b7e151628aed2a7ull;

// Each source file has its own copy, because ISA sources must not export weak symbols.
alignas(64) constexpr uint32_t kChecksumKeys[64] = {
    0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344, 0xa4093822, 0x299f31d0, 0x082efa98, 0xec4e6c89,
    0x452821e6, 0x38d01377, 0xbe5466cf, 0x34e90c6c, 0xc0ac29b7, 0xc97c50dd, 0x3f84d5b5, 0xb5470917,
    0x9216d5d9, 0x8979fb1b, 0xd1310ba6, 0x98dfb5ac, 0x2ffd72db, 0xd01adfb7, 0xb8e1afed, 0x6a267e96,
    0xba7c9045, 0xf12c7f99, 0x24a19947, 0xb3916cf7, 0x0801f2e2, 0x858efc16, 0x636920d8, 0x71574e69,
    0xa458fea3, 0xf4933d7e, 0x0d95748f, 0x728eb658, 0x718bcd58, 0x82154aee, 0x7b54a41d, 0xc25a59b5,
    0x9c30d539, 0x2af26013, 0xc5d1b023, 0x286085f0, 0xca417918, 0xb8db38ef, 0x8e79dcb0, 0x603a180e,
    0x6c9e0e8b, 0xb01e8a3e, 0xd71577c1, 0xbd314b27, 0x78af2fda, 0x55605c60, 0xe65525f3, 0xaa55ab94,
    0x57489862, 0x63e81440, 0x55ca396a, 0x2aab10b6, 0xb4cc5c34, 0x1141e8ce, 0xa15486af, 0x7c72e993};

#define CPUACCEL_KERNEL(name) ChecksumFunction checksum_##name;
#include "kernels/checksum/kernels.inc"
#undef CPUACCEL_KERNEL

std::span<const KernelRow<ChecksumFunction>> checksum_kernels();

// The checksum of `bytes` bytes, with the best usable row and all of torch's threads. It does not
// depend on the number of threads.
CPUACCEL_API uint64_t checksum(const void* src, int64_t bytes);

}  // namespace cpuaccel::kernels
