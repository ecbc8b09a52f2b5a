#include "kernels/gemm_bf16/gemm_bf16.h"

#include <algorithm>
#include <array>

#include "base/amx.h"
#include "base/scratch.h"
#include "kernels/gemm/edges.h"
#include "kernels/gemm/packed.h"
#include "kernels/gemm/paths.h"
#include "kernels/gemm/skinny.h"
#include "kernels/gemm_bf16/packed.h"

namespace cpuaccel::kernels {
namespace {

constexpr std::array kRows{
#define CPUACCEL_KERNEL(name) CPUACCEL_ROW(KernelRow<GemmBf16Function>, name, gemm_bf16_##name)
#include "kernels/gemm_bf16/kernels.inc"
#undef CPUACCEL_KERNEL
};

struct Operands {
  const GemmCall& call;
  const GemmBf16Kernels& kernels;
  LoadFunction* rows = kernels.tile_rows;
};

// The number of elements of k in `pairs` pairs from pair k0 on.
int64_t elements(const GemmCall& call, int64_t k0, int64_t pairs) {
  return std::min(2 * pairs, call.K - 2 * k0);
}

void write_rows(const void* context, const RowBlock& block) {
  const auto& of = *static_cast<const Operands*>(context);
  const GemmMatrix& a = of.call.a;
  of.rows({matrix_at(a, block.g, block.m0, 2 * block.k0), a.type, a.row_stride, a.column_stride,
           block.mc, elements(of.call, block.k0, block.kc), block.rows, block.stride});
}

void write_panels(const void* context, const PanelBlock& block) {
  const auto& of = *static_cast<const Operands*>(context);
  const GemmMatrix& b = of.call.b;
  of.kernels.panels(
      {matrix_at(b, block.g, 2 * block.k0, block.n0), b.type, b.row_stride, b.column_stride,
       elements(of.call, block.k0, block.kc), block.nc, block.panels, 0},
      block.nr);
}

GemmPrefetch panels_source(const void* context, const PanelBlock& block) {
  const GemmCall& call = static_cast<const Operands*>(context)->call;
  return matrix_source(call.b, block.g, 2 * block.k0, elements(call, block.k0, block.kc), block.n0,
                       block.nc);
}

// Columns that are written as floats at a time: whole panels of each row, and at most 400 KB.
int64_t columns_at_a_time(int64_t nr) { return std::max<int64_t>(192 / nr, 1) * nr; }

// Rounds what call.pack_b writes, a part of the block at a time.
void write_rounded(const void* context, const PanelBlock& block) {
  const auto& of = *static_cast<const Operands*>(context);
  const PackPanels& from = of.call.pack_b;
  const int64_t count = elements(of.call, block.k0, block.kc), nr = block.nr;
  const int64_t step = columns_at_a_time(nr);
  auto* floats = static_cast<float*>(
      scratch(ScratchSlot::accumulator, static_cast<size_t>(kGemmMaxKc * step) * sizeof(float)));
  for (int64_t n = 0; n < block.nc; n += step) {
    const int64_t columns = std::min(step, block.nc - n);
    for (int64_t k = 0; k < count; k += kGemmMaxKc) {
      const int64_t rows = std::min(kGemmMaxKc, count - k);
      from.write(from.context,
                 {block.g, 2 * block.k0 + k, rows, block.n0 + n, columns, nr, floats});
      for (int64_t j = 0; j < columns; j += nr) {
        of.kernels.panels({floats + j * rows, DataType::f32, nr, 1, rows, nr,
                           block.panels + ((n + j) * block.kc + k / 2 * nr), 0},
                          nr);
      }
    }
  }
}

GemmPrefetch rounded_source(const void* context, const PanelBlock& block) {
  const GemmCall& call = static_cast<const Operands*>(context)->call;
  if (call.pack_b.source == nullptr) {
    return {};
  }
  PanelBlock of_floats = block;
  of_floats.k0 = 2 * block.k0;
  of_floats.kc = elements(call, block.k0, block.kc);
  return call.pack_b.source(call.pack_b.context, of_floats);
}

// Row k of packed f32 in the panel of column n, and the number of rows from it to the end of its
// block.
struct PackedRows {
  const char* data;
  int64_t rows;
};
PackedRows packed_rows(const GemmPacked& weights, int64_t k, int64_t n, int64_t nr) {
  const int64_t block = k / weights.kc() * weights.kc();
  const int64_t rows = std::min(weights.kc(), weights.K() - block);
  return {weights.panel(block, n) + (k - block) * nr * int64_t{sizeof(float)}, block + rows - k};
}

void write_packed(const void* context, const PanelBlock& block) {
  const auto& of = *static_cast<const Operands*>(context);
  const int64_t count = elements(of.call, block.k0, block.kc);
  for (int64_t n = 0; n < block.nc; n += block.nr) {
    for (int64_t k = 0; k < count;) {
      const auto from = packed_rows(*of.call.packed, 2 * block.k0 + k, block.n0 + n, block.nr);
      const int64_t rows = std::min(from.rows, count - k);
      of.kernels.panels({from.data, DataType::f32, block.nr, 1, rows, block.nr,
                         block.panels + (n * block.kc + k / 2 * block.nr), 0},
                        block.nr);
      k += rows;
    }
  }
}

GemmPrefetch packed_source(const void* context, const PanelBlock& block) {
  const GemmCall& call = static_cast<const Operands*>(context)->call;
  const auto from = packed_rows(*call.packed, 2 * block.k0, block.n0, block.nr);
  const int64_t rows = std::min(from.rows, elements(call, block.k0, block.kc));
  return {from.data, 1, rows * block.nr * int64_t{sizeof(float)}, 0};
}

// Columns of bf16 are pairs in place.
bool pairs_in_place(const GemmCall& call) {
  return call.b.type == DataType::bf16 && call.b.row_stride == 1 && call.K % 2 == 0 &&
         call.b.column_stride % 2 == 0 && call.b.batch_stride % 2 == 0;
}

// Rows of bf16 that the tile can read in place: whole pairs, aligned as floats.
bool rows_in_place(const GemmCall& call, const GemmBf16Kernels& kernels) {
  const GemmMatrix& a = call.a;
  return kernels.interleaved == 1 && a.type == DataType::bf16 && a.column_stride == 1 &&
         call.K % (2 * kernels.together) == 0 && a.row_stride % 2 == 0 && a.batch_stride % 2 == 0 &&
         reinterpret_cast<uintptr_t>(a.data) % alignof(float) == 0;
}

// Sets the left operand of `pairs`: in place, or written by a callback.
void take_rows(GemmCall& pairs, const Operands& operands) {
  const GemmMatrix& a = operands.call.a;
  if (rows_in_place(operands.call, operands.kernels)) {
    pairs.a = {a.data, DataType::f32, a.row_stride / 2, 1, a.batch_stride / 2};
  } else {
    pairs.pack_a = {write_rows, &operands};
  }
}

// As a matrix of "floats", for gemm_dot, which reads the right matrix in place.
GemmMatrix in_place(const GemmMatrix& b) {
  return {b.data, DataType::f32, 1, b.column_stride / 2, b.batch_stride / 2};
}

}  // namespace

std::span<const KernelRow<GemmBf16Function>> all_gemm_bf16_kernels() {
  const std::span rows(kRows);
  return rows.front().isa == Isa::amx && !has_amx_tiles() ? rows.subspan(1) : rows;
}

std::span<const KernelRow<GemmBf16Function>> gemm_bf16_kernels() { return kRows; }

void gemm_bf16(const GemmCall& call) {
  gemm_bf16(call, first_usable(gemm_bf16_kernels()).function);
}

void gemm_bf16(const GemmCall& call, GemmBf16Function* row) {
  const GemmBf16Kernels& kernels = row();
  if (call.packed != nullptr &&
      (call.packed->type() != DataType::f32 || call.packed->row()().nr != kernels.pairs().nr)) {
    gemm(call);
    return;
  }
  Operands operands{call, kernels};
  GemmCall pairs = call;
  pairs.K = kernels.count(call.K);
  take_rows(pairs, operands);
  if (call.packed != nullptr) {
    pairs.packed = nullptr;
    pairs.pack_b = {write_packed, packed_source, &operands};
    gemm(pairs, kernels.pairs);
    return;
  }
  if (call.pack_b.write != nullptr) {
    pairs.pack_b = {write_rounded, rounded_source, &operands};
    gemm(pairs, kernels.pairs);
    return;
  }
  if (pairs_in_place(call)) {
    GemmCall dots = pairs;
    dots.K = call.K / 2;
    dots.b = in_place(call.b);
    if (dots.M > 0 && gemm_path(dots, kernels.pairs()).run == gemm_dot) {
      operands.rows = kernels.rows;
      dots.pack_a = {write_rows, &operands};
      gemm(dots, kernels.pairs);
      return;
    }
  }
  pairs.pack_b = {write_panels, panels_source, &operands};
  gemm(pairs, kernels.pairs);
}

void gemm_bf16(const GemmCall& call, const GemmBf16Packed& b) {
  const GemmBf16Kernels& kernels = b.row()();
  Operands operands{call, kernels};
  GemmCall pairs = call;
  pairs.K = b.pairs().K();
  pairs.b = {};
  take_rows(pairs, operands);
  pairs.pack_b = {};
  pairs.packed = &b.pairs();
  gemm(pairs, kernels.pairs);
}

}  // namespace cpuaccel::kernels
