#include "kernels/norm_rows.h"

#include <algorithm>

#include "base/parallel.h"
#include "base/scratch_arrays.h"
#include "kernels/gemm/gemm.h"
#include "kernels/gemm/kernels.h"
#include "kernels/quantize/quantize.h"

namespace cpuaccel::kernels {
namespace {

// Elements; about 10 us of work.
constexpr int64_t kGrain = 32768;

template <typename T>
T* at(T* data, int64_t offset) {
  return data == nullptr ? nullptr : data + offset;
}

// Rows of f32. Each row is quantized while it is in L1.
template <typename Norm>
void rows_of_floats(const NormRows& call, const Norm& norm, int64_t begin, int64_t end) {
  const auto quantize = first_usable(quantize_kernels()).function;
  const QuantizeBy by = quantize_by(1.0f / call.scale, call.zero_point);
  const int64_t unkept = call.dst == nullptr ? call.columns : 0;
  ScratchArrays memory(ScratchSlot::gemm_a, ScratchArrays::room<float>(unkept));
  auto* const one_row = memory.take<float>(unkept);
  for (int64_t r = begin; r < end; ++r) {
    const int64_t offset = r * call.columns;
    auto* dst = call.dst == nullptr ? one_row : static_cast<float*>(call.dst) + offset;
    auto* sum = at(static_cast<float*>(call.sum), offset);
    norm({static_cast<const float*>(call.src) + offset,
          at(static_cast<const float*>(call.addend), offset), sum != nullptr ? sum : dst, dst});
    if (call.bytes != nullptr) {
      quantize(dst, call.bytes + offset, call.columns, by);
    }
  }
}

// Rows of 16-bit floats, widened to f32 and rounded back by gemm's kernels, one row at a time.
template <typename Norm>
void rows_of_halves(const NormRows& call, const Norm& norm, int64_t begin, int64_t end) {
  const GemmKernels& halves = first_usable(gemm_kernels()).function();
  const int64_t columns = call.columns;
  ScratchArrays memory(ScratchSlot::gemm_a, 3 * ScratchArrays::room<float>(columns));
  auto* x = memory.take<float>(columns);
  auto* addend = memory.take<float>(columns);
  auto* dst = memory.take<float>(columns);
  const auto load = [&](const uint16_t* from, float* to) {
    halves.load({from, call.type, 0, 1, 1, columns, to, columns});
  };
  for (int64_t r = begin; r < end; ++r) {
    const int64_t offset = r * columns;
    load(static_cast<const uint16_t*>(call.src) + offset, x);
    const auto* other = at(static_cast<const uint16_t*>(call.addend), offset);
    if (other != nullptr) {
      load(other, addend);
    }
    norm({x, other != nullptr ? addend : nullptr, x, dst});
    if (call.sum != nullptr) {
      halves.store(x, columns, static_cast<uint16_t*>(call.sum) + offset, call.type);
    }
    halves.store(dst, columns, static_cast<uint16_t*>(call.dst) + offset, call.type);
  }
}

}  // namespace

void run_norm_rows(const NormRows& rows, void (*norm)(const void* context, const NormRow& row),
                   const void* context) {
  const auto one = [&](const NormRow& row) { norm(context, row); };
  const int64_t grain = std::max<int64_t>(1, kGrain / std::max<int64_t>(1, rows.columns));
  parallel_for(0, rows.rows, grain, [&](int64_t begin, int64_t end) {
    if (rows.type == DataType::f32) {
      rows_of_floats(rows, one, begin, end);
    } else {
      rows_of_halves(rows, one, begin, end);
    }
  });
}

}  // namespace cpuaccel::kernels
