// Lookup in a 256-byte table by byte shuffles, templated on a class of kernels/byte_vectors.
// Included by ISA sources.
//
// A byte shuffle looks up the low four bits of an index and gives 0 if its sign bit is set. So each
// half of the table takes eight lookups, each with an index 16 less than the one before. The
// results of all lookups whose index is not negative are combined by exclusive or. Therefore each
// part holds the difference (exclusive or) of its sixteen entries from the sixteen before. Indices
// of the other half are negative throughout.
#pragma once

#include "kernels/inline.h"
#include "kernels/lookup_table/lookup_table.h"

namespace cpuaccel::kernels {
namespace {

// An empty asm: without it GCC makes a tree of the exclusive ors and spills its leaves.
template <typename T>
CPUACCEL_INLINE void keep_order(T& value) {
  __asm__("" : "+v"(value));
}

template <typename V>
struct ByShuffles {
  using Vector = typename V::Vector;
  static constexpr int kParts = 8;

  Vector low[kParts];
  Vector high[kParts];

  explicit ByShuffles(const uint8_t* table) {
    differences(table, low);
    differences(table + kTableEntries / 2, high);
  }

  static void differences(const uint8_t* half, Vector (&parts)[kParts]) {
    parts[0] = V::repeat16(half);
    for (int k = 1; k < kParts; ++k) {
      parts[k] = V::bits_xor(V::repeat16(half + 16 * (k - 1)), V::repeat16(half + 16 * k));
    }
  }

  template <int kVectors>
  static void look_up_half(const Vector (&parts)[kParts], Vector (&index)[kVectors],
                           Vector (&entries)[kVectors]) {
    const Vector step = V::set8(16);
#pragma GCC unroll 8
    for (int k = 0; k < kParts; ++k) {
      const Vector part = parts[k];
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v) {
        entries[v] = V::bits_xor(entries[v], V::shuffle8(part, index[v]));
        keep_order(entries[v]);
        index[v] = V::subtract8_saturating(index[v], step);
      }
    }
  }

  template <int kVectors>
  void look_up(const uint8_t* src, uint8_t* dst) const {
    const Vector sign = V::set8(-128);
    Vector index[kVectors];
    Vector entries[kVectors];
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) {
      index[v] = V::load(src + v * V::kBytes);
      entries[v] = V::set8(0);
    }
    look_up_half<kVectors>(low, index, entries);
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) {  // reloaded: too few registers to keep it
      index[v] = V::bits_xor(V::load(src + v * V::kBytes), sign);
    }
    look_up_half<kVectors>(high, index, entries);
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) {
      V::store(dst + v * V::kBytes, entries[v]);
    }
  }
};

template <typename V, int kVectors>
void lookup_table_by_shuffles(const uint8_t* src, uint8_t* dst, int64_t count,
                              const uint8_t* table) {
  int64_t i = 0;
  if (count >= 64) {  // for less, the differences cost more than they save
    const ByShuffles<V> entries(table);
    for (; i + kVectors * V::kBytes <= count; i += kVectors * V::kBytes) {
      entries.template look_up<kVectors>(src + i, dst + i);
    }
    for (; i + V::kBytes <= count; i += V::kBytes) {
      entries.template look_up<1>(src + i, dst + i);
    }
  }
  lookup_table_ref(src + i, dst + i, count - i, table);
}

}  // namespace
}  // namespace cpuaccel::kernels
