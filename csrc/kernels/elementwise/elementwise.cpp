#include "kernels/elementwise/elementwise.h"

#include <algorithm>

#include "base/parallel.h"
#include "kernels/eltwise_f32/eltwise_f32.h"
#include "kernels/gemm/gemm.h"
#include "kernels/gemm/half.h"
#include "kernels/gemm/kernels.h"
#include "kernels/round_up.h"

namespace cpuaccel::kernels {
namespace {

constexpr std::array kRows{
#define CPUACCEL_KERNEL(name) CPUACCEL_ROW(KernelRow<ElementwiseFunction>, name, elementwise_##name)
#include "kernels/elementwise/kernels.inc"
#undef CPUACCEL_KERNEL
};

constexpr int64_t kBlock = 512;       // floats of each value; all values stay in L1 or L2
constexpr int64_t kGrain = 16 << 10;  // elements per thread at least
constexpr size_t kRow = kElementwiseDims - 2, kColumn = kElementwiseDims - 1;

// dst in blocks: some columns of a row, or some whole rows. A block is dense in dst.
struct Blocks {
  explicit Blocks(const ElementwiseSizes& sizes)
      : columns(std::min(sizes[kColumn], kBlock)),
        rows(columns < sizes[kColumn] ? 1 : std::clamp(kBlock / columns, int64_t{1}, sizes[kRow])),
        across(divide_up(sizes[kColumn], columns)),
        down(divide_up(sizes[kRow], rows)),
        count(across * down) {
    for (size_t i = 0; i < kRow; ++i) {
      count *= sizes[i];
    }
  }
  int64_t columns, rows;  // of a whole block
  int64_t across, down;   // blocks of a row of dst, and of its last two dimensions
  int64_t count;
};

class Worker {
 public:
  Worker(const ElementwiseProgram& program, const Blocks& blocks,
         std::span<const void* const> operands, void* dst, ElementwiseFunction* row)
      : program_(program), blocks_(blocks), operands_(operands), dst_(dst), row_(row) {}

  void run(int64_t number) {
    const auto& sizes = program_.sizes;
    ElementwiseSizes at{};
    at[kColumn] = number % blocks_.across * blocks_.columns;
    number /= blocks_.across;
    at[kRow] = number % blocks_.down * blocks_.rows;
    number /= blocks_.down;
    for (size_t i = kRow; i-- > 0; number /= sizes[i]) {
      at[i] = number % sizes[i];
    }
    columns_ = std::min(blocks_.columns, sizes[kColumn] - at[kColumn]);
    rows_ = std::min(blocks_.rows, sizes[kRow] - at[kRow]);
    for (size_t i = 0; i < operands_.size(); ++i) {
      load(i, at);
    }
    size_t next = operands_.size();
    for (const auto& step : program_.steps) {
      compute(step, next++);
    }
    int64_t offset = 0;
    for (size_t i = 0; i < kElementwiseDims; ++i) {
      offset = offset * sizes[i] + at[i];
    }
    kernels_.store(values_[next - 1], rows_ * columns_,
                   static_cast<char*>(dst_) + offset * data_type_size(program_.type),
                   program_.type);
  }

 private:
  void load(size_t i, const ElementwiseSizes& at) {
    const auto& [type, strides] = program_.operands[i];
    int64_t offset = 0;
    for (size_t j = 0; j < kElementwiseDims; ++j) {
      offset += at[j] * strides[j];
    }
    const char* src = static_cast<const char*>(operands_[i]) + offset * data_type_size(type);
    const int64_t row_stride = strides[kRow], column_stride = strides[kColumn];
    float* const to = buffers_[i];
    values_[i] = to;
    if (column_stride == 0) {
      for (int64_t r = 0; r < rows_; ++r) {
        std::fill_n(to + r * columns_, columns_, element_to_float(src, type, r * row_stride));
      }
    } else if (type == DataType::f32 && column_stride == 1 &&
               (rows_ == 1 || row_stride == columns_)) {
      values_[i] = reinterpret_cast<const float*>(src);
    } else {
      kernels_.load({src, type, row_stride, column_stride, rows_, columns_, to, columns_});
    }
  }

  void compute(const ElementwiseStep& step, size_t to) {
    const int64_t count = rows_ * columns_;
    values_[to] = buffers_[to];
    if (step.op == ElementwiseOp::activation) {
      std::copy_n(values_[step.a], count, buffers_[to]);
      eltwise_f32(step.activation, buffers_[to], count);
    } else {
      row_({step.op, values_[step.a], values_[step.b], buffers_[to], count, step.low, step.high});
    }
  }

  const ElementwiseProgram& program_;
  const Blocks& blocks_;
  const std::span<const void* const> operands_;
  void* const dst_;
  ElementwiseFunction* const row_;
  const GemmKernels& kernels_ = first_usable(gemm_kernels()).function();
  int64_t rows_ = 0, columns_ = 0;
  std::array<const float*, kElementwiseValues> values_{};
  alignas(64) float buffers_[kElementwiseValues][kBlock];
};

// Whether, for all operands, dimension `i` and the one behind it are one.
bool may_merge(const ElementwiseProgram& program, size_t i) {
  return std::ranges::all_of(program.operands, [&](const ElementwiseOperand& operand) {
    return operand.strides[i] == operand.strides[i + 1] * program.sizes[i + 1];
  });
}

}  // namespace

void ElementwiseProgram::merge_dimensions() {
  // Drops dimension `i`, whose strides do not matter, and puts a 1 in front.
  const auto drop = [&](size_t i) {
    const auto shift = [&](ElementwiseSizes& of, int64_t first) {
      std::copy_backward(of.begin(), of.begin() + static_cast<ptrdiff_t>(i),
                         of.begin() + static_cast<ptrdiff_t>(i + 1));
      of[0] = first;
    };
    shift(sizes, 1);
    for (auto& operand : operands) {
      shift(operand.strides, 0);
    }
  };
  size_t left = 0;  // dimensions in front that are dropped
  for (size_t i = 0; i < kElementwiseDims; ++i) {
    if (sizes[i] == 1 && i >= left) {
      drop(i);
      ++left;
    }
  }
  for (size_t i = kElementwiseDims - 1; i-- > left;) {
    while (i >= left && may_merge(*this, i)) {
      sizes[i + 1] *= sizes[i];
      drop(i);
      ++left;
    }
  }
}

std::span<const KernelRow<ElementwiseFunction>> elementwise_kernels() { return kRows; }

void elementwise(const ElementwiseProgram& program, std::span<const void* const> operands,
                 void* dst) {
  elementwise(program, operands, dst, first_usable(elementwise_kernels()).function);
}

void elementwise(const ElementwiseProgram& program, std::span<const void* const> operands,
                 void* dst, ElementwiseFunction* row) {
  if (std::ranges::find(program.sizes, 0) != program.sizes.end()) {
    return;
  }
  const Blocks blocks(program.sizes);
  const int64_t grain = std::max<int64_t>(1, kGrain / (blocks.rows * blocks.columns));
  parallel_for(0, blocks.count, grain, [&](int64_t begin, int64_t end) {
    Worker worker(program, blocks, operands, dst, row);
    for (int64_t i = begin; i < end; ++i) {
      worker.run(i);
    }
  });
}

}  // namespace cpuaccel::kernels
