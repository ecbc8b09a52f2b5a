// Lookup in a 256-byte table by byte shuffles, templated on a vector type. Included by ISA sources.
//
// A byte shuffle looks up the low four bits of an index and gives 0 if its sign bit is set. So each
// half of the table takes eight lookups, each with an index 16 less than the one before. The
// results of all lookups whose index is not negative are combined by exclusive or. Therefore each
// part holds the difference (exclusive or) of its sixteen entries from the sixteen before. Indices
// of the other half are negative throughout.
//
// Vector: Type, kBytes, load, store, broadcast (16 bytes), zero, fill, exclusive_or, shuffle,
// subtract (signed, saturating), keep_order (an empty asm: otherwise GCC makes a tree of the
// exclusive ors and spills its leaves).
#pragma once

#include "kernels/table/table.h"

namespace cpuaccel::kernels {
namespace {

template <typename Vector>
struct ByShuffles {
  using Type = typename Vector::Type;
  static constexpr int kParts = 8;

  Type low[kParts];
  Type high[kParts];

  explicit ByShuffles(const uint8_t* table) {
    differences(table, low);
    differences(table + kTableEntries / 2, high);
  }

  static void differences(const uint8_t* half, Type (&parts)[kParts]) {
    parts[0] = Vector::broadcast(half);
    for (int k = 1; k < kParts; ++k) {
      parts[k] = Vector::exclusive_or(Vector::broadcast(half + 16 * (k - 1)),
                                      Vector::broadcast(half + 16 * k));
    }
  }

  template <int kVectors>
  static void look_up_half(const Type (&parts)[kParts], Type (&index)[kVectors],
                           Type (&entries)[kVectors]) {
    const Type step = Vector::fill(16);
#pragma GCC unroll 8
    for (int k = 0; k < kParts; ++k) {
      const Type part = parts[k];
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v) {
        entries[v] = Vector::exclusive_or(entries[v], Vector::shuffle(part, index[v]));
        Vector::keep_order(entries[v]);
        index[v] = Vector::subtract(index[v], step);
      }
    }
  }

  template <int kVectors>
  void look_up(const uint8_t* src, uint8_t* dst) const {
    const Type sign = Vector::fill(-128);
    Type index[kVectors];
    Type entries[kVectors];
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) {
      index[v] = Vector::load(src + v * Vector::kBytes);
      entries[v] = Vector::zero();
    }
    look_up_half<kVectors>(low, index, entries);
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) {  // reloaded: too few registers to keep it
      index[v] = Vector::exclusive_or(Vector::load(src + v * Vector::kBytes), sign);
    }
    look_up_half<kVectors>(high, index, entries);
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) {
      Vector::store(dst + v * Vector::kBytes, entries[v]);
    }
  }
};

template <typename Vector, int kVectors>
void table_by_shuffles(const uint8_t* src, uint8_t* dst, int64_t count, const uint8_t* table) {
  int64_t i = 0;
  if (count >= 64) {  // for less, the differences cost more than they save
    const ByShuffles<Vector> entries(table);
    for (; i + kVectors * Vector::kBytes <= count; i += kVectors * Vector::kBytes) {
      entries.template look_up<kVectors>(src + i, dst + i);
    }
    for (; i + Vector::kBytes <= count; i += Vector::kBytes) {
      entries.template look_up<1>(src + i, dst + i);
    }
  }
  table_ref(src + i, dst + i, count - i, table);
}

}  // namespace
}  // namespace cpuaccel::kernels
