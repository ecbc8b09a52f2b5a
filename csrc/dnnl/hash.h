// Hash combination for problems.
#pragma once

#include <cstddef>
#include <cstdint>

namespace cpuaccel::dnnl_layer {

// boost's hash_combine with 64-bit constants of splitmix64.
inline void hash_combine(size_t& seed, uint64_t value) {
  value += 0x9e3779b97f4a7c15ull + seed;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9ull;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebull;
  seed = value ^ (value >> 31);
}

}  // namespace cpuaccel::dnnl_layer
