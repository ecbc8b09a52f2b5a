#include "kernels/qattention/qattention.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <limits>
#include <numeric>

#include "base/parallel.h"
#include "base/scratch_arrays.h"
#include "kernels/gemm/blocking.h"
#include "kernels/qattention/operand.h"
#include "kernels/round_up.h"

namespace cpuaccel::kernels {
namespace {

template <QconvFunction* kMultiply, AttentionFunction* kSoftmax, QuantizeFunction* kQuantize>
const QattentionKernels& qattention_of() {
  static constexpr QattentionKernels kernels{kMultiply, kSoftmax, kQuantize};
  return kernels;
}

constexpr std::array kRows{
#define CPUACCEL_COMPOSED(name, multiply, floats)   \
  CPUACCEL_ROW(KernelRow<QattentionFunction>, name, \
               qattention_of<qconv_##multiply, attention_##floats, quantize_##floats>)
#include "kernels/qattention/kernels.inc"
#undef CPUACCEL_COMPOSED
};

// Bytes of scores: with the keys or values of a head they stay in L2.
constexpr int64_t kScoreBytes = 64 * 1024;
// Multiply-adds; about 10 us of work.
constexpr int64_t kGrain = 300000;
// The multiply kernels may read a run up to the end of a 16-byte load.
constexpr int64_t kRunPadding = 16;

// Queries processed at once: whole tiles, as many as their scores have room for.
int64_t rows_at_once(const QattentionCall& call) {
  const int64_t room = kScoreBytes / (call.S * static_cast<int64_t>(sizeof(float)));
  const int64_t tiles = std::clamp<int64_t>(room / kQconvTallest, 1, kQconvPanel / kQconvTallest);
  return std::min(even_part(call.L, tiles * kQconvTallest, kQconvTallest), call.L);
}

// Multiplies rows of bytes by a packed operand. The result is dense f32.
struct Product {
  const QattentionOperand& right;
  float* dst;
  const float* scales;  // one per column
  const float* biases;
  int32_t zero_point;  // zero point of the rows

  void run(QconvFunction* multiply, const uint8_t* const* rows, int64_t count) const {
    QconvCall call;
    call.weights = &right.weights();
    call.N = count;
    call.src_zero_point = zero_point;
    call.dst.data = dst;
    call.dst.type = DataType::f32;
    call.dst.scales = scales;
    call.dst.bias = biases;
    QconvPanel panel;
    panel.runs = rows;
    panel.pixels = count;
    const auto& layout = call.weights->layout;
    const int64_t chunk = qconv_chunk(layout);
    for (; panel.block < layout.part_blocks(); panel.block += chunk) {
      panel.blocks = std::min(chunk, layout.part_blocks() - panel.block);
      multiply(call, panel);
    }
  }
};

// Pointers to the rows of a panel; the last one is repeated up to a whole tile.
class Rows {
 public:
  void set(int64_t row, const uint8_t* run) { runs_[static_cast<size_t>(row)] = run; }
  const uint8_t* const* of(int64_t count) {
    const auto filled = static_cast<size_t>(count);
    std::fill(runs_.begin() + count, runs_.begin() + round_up(count, kQconvTallest),
              runs_[filled - 1]);
    return runs_.data();
  }

 private:
  std::array<const uint8_t*, kQconvPanel> runs_{};
};

// Attention of some queries of one head over all keys.
class Queries {
 public:
  Queries(const QattentionCall& call, const QattentionKernels& kernels, int64_t most)
      : call_(call),
        kernels_(kernels),
        softmax_(kernels.softmax().softmax),
        query_stride_(round_up(call.E, kRunPadding)),
        weight_stride_(round_up(call.S, kRunPadding)),
        sizes_(call, *this, most),
        left_(ScratchSlot::gemm_a, sizes_.left),
        right_(ScratchSlot::gemm_b, sizes_.right),
        sums_(ScratchSlot::gemm_dst, sizes_.sums),
        query_(left_.take<uint8_t>(most * query_stride_)),
        weights_(left_.take<uint8_t>(most * weight_stride_)),
        keys_(call.E, call.S, right_.take<std::byte>(QattentionOperand::bytes(call.E, call.S))),
        values_(call.S, call.E, right_.take<std::byte>(QattentionOperand::bytes(call.S, call.E))),
        gathered_(right_.take<uint8_t>(call.S * call.E)),
        scores_(sums_.take<float>(most * call.S)),
        results_(sums_.take<float>(most * call.E)),
        mask_(sums_.take<float>(call.S)),
        scales_(sums_.take<float>(sizes_.columns)),
        zeros_(sums_.take<float>(sizes_.columns)) {
    std::fill_n(zeros_, sizes_.columns, 0.0f);
  }

  void run(int64_t n, int64_t h, int64_t l0, int64_t rows) {
    if (n != n_ || h != h_) {
      n_ = n, h_ = h;
      pack();
    }
    score(l0, rows);
    for (int64_t i = 0; i < rows; ++i) {
      weigh(l0 + i, i);
    }
    add_values(rows);
    for (int64_t i = 0; i < rows; ++i) {
      finish(l0 + i, i);
    }
  }

 private:
  struct Sizes {
    int64_t left, right, sums, columns;
    Sizes(const QattentionCall& call, const Queries& of, int64_t most)
        : left(ScratchArrays::room<uint8_t>(most * of.query_stride_) +
               ScratchArrays::room<uint8_t>(most * of.weight_stride_)),
          right(ScratchArrays::room<std::byte>(QattentionOperand::bytes(call.E, call.S)) +
                ScratchArrays::room<std::byte>(QattentionOperand::bytes(call.S, call.E)) +
                ScratchArrays::room<uint8_t>(call.S * call.E)),
          columns(std::max(call.S, call.E)) {
      sums = ScratchArrays::room<float>(most * call.S) + ScratchArrays::room<float>(most * call.E) +
             ScratchArrays::room<float>(call.S) + 2 * ScratchArrays::room<float>(columns);
    }
  };

  void pack() {
    pack(call_.key, keys_, &QattentionOperand::pack_columns, &QattentionOperand::pack_rows);
    pack(call_.value, values_, &QattentionOperand::pack_rows, &QattentionOperand::pack_columns);
  }

  // Packs S x E bytes with the function for contiguous rows or the one for contiguous columns.
  using Pack = void (QattentionOperand::*)(const uint8_t* src, int64_t stride);
  void pack(const HeadMatrix<const uint8_t>& from, QattentionOperand& to, Pack by_rows,
            Pack by_columns) {
    const uint8_t* const src = from.at(n_, h_, 0);
    if (from.column_stride == 1) {
      (to.*by_rows)(src, from.row_stride);
    } else if (from.row_stride == 1) {
      (to.*by_columns)(src, from.column_stride);
    } else {
      for (int64_t s = 0; s < call_.S; ++s) {
        for (int64_t e = 0; e < call_.E; ++e) {
          gathered_[s * call_.E + e] = src[s * from.row_stride + e * from.column_stride];
        }
      }
      (to.*by_rows)(gathered_, call_.E);
    }
  }

  // A copy of one query, padded with zeros to a whole load.
  const uint8_t* query_row(int64_t l, int64_t i) {
    uint8_t* const copy = query_ + i * query_stride_;
    const uint8_t* from = call_.query.at(n_, h_, l);
    const int64_t stride = call_.query.column_stride;
    if (stride == 1) {
      std::memcpy(copy, from, static_cast<size_t>(call_.E));
    } else {
      for (int64_t e = 0; e < call_.E; ++e) {
        copy[e] = from[e * stride];
      }
    }
    std::fill(copy + call_.E, copy + query_stride_, uint8_t{0});
    return copy;
  }

  void score(int64_t l0, int64_t count) {
    Rows rows;
    for (int64_t i = 0; i < count; ++i) {
      rows.set(i, query_row(l0 + i, i));
    }
    const float scale = call_.scale * call_.query_quantizer.scale * call_.key_quantizer.scale;
    std::fill_n(scales_, call_.S, scale);
    Product{keys_, scores_, scales_, zeros_, call_.query_quantizer.zero_point}.run(
        kernels_.multiply, rows.of(count), count);
  }

  const float* mask(int64_t l) const {
    const auto& mask = call_.mask;
    if (mask.data == nullptr) {
      return nullptr;
    }
    const float* const row = mask.at(n_, h_, l);
    if (mask.column_stride == 1) {
      return row;
    }
    for (int64_t s = 0; s < call_.S; ++s) {
      mask_[s] = row[s * mask.column_stride];
    }
    return mask_;
  }

  // Converts a row of scores to quantized weights.
  void weigh(int64_t l, int64_t i) const {
    constexpr float kLowest = -std::numeric_limits<float>::infinity();
    float* const scores = scores_ + i * call_.S;
    uint8_t* const weights = weights_ + i * weight_stride_;
    const float sum = softmax_({scores, call_.S, mask(l), kLowest}).sum;
    const auto& [scale, zero_point] = call_.weight_quantizer;
    kernels_.quantize(scores, weights, call_.S,
                      quantize_by(sum == 0.0f ? 0.0f : 1.0f / (sum * scale), zero_point));
    std::fill(weights + call_.S, weights + weight_stride_, uint8_t{0});
  }

  void add_values(int64_t count) {
    Rows rows;
    for (int64_t i = 0; i < count; ++i) {
      rows.set(i, weights_ + i * weight_stride_);
    }
    std::fill_n(scales_, call_.E, call_.weight_quantizer.scale * call_.value_quantizer.scale);
    Product{values_, results_, scales_, zeros_, call_.weight_quantizer.zero_point}.run(
        kernels_.multiply, rows.of(count), count);
  }

  // The correction for values whose zero point is not 128, the one that packing subtracts. It is
  // the same for all elements of a row.
  float beyond(int64_t i) const {
    const int32_t left = call_.value_quantizer.zero_point - kSignBit;
    if (left == 0) {
      return 0.0f;
    }
    const uint8_t* const weights = weights_ + i * weight_stride_;
    const int64_t sum = std::accumulate(weights, weights + call_.S, int32_t{0}) -
                        call_.S * call_.weight_quantizer.zero_point;
    return static_cast<float>(sum * left) *
           (call_.weight_quantizer.scale * call_.value_quantizer.scale);
  }

  void finish(int64_t l, int64_t i) const {
    float* const row = results_ + i * call_.E;
    const float shift = beyond(i);
    float* const real = call_.dst_f32.data != nullptr ? call_.dst_f32.at(n_, h_, l) : row;
    for (int64_t e = 0; e < call_.E; ++e) {
      real[e] = row[e] - shift;
    }
    if (call_.dst_u8.data != nullptr) {
      const auto& [scale, zero_point] = call_.dst_quantizer;
      kernels_.quantize(real, call_.dst_u8.at(n_, h_, l), call_.E,
                        quantize_by(1.0f / scale, zero_point));
    }
  }

  const QattentionCall& call_;
  const QattentionKernels& kernels_;
  SoftmaxResult (*const softmax_)(const SoftmaxRow& row);
  const int64_t query_stride_, weight_stride_;
  const Sizes sizes_;
  ScratchArrays left_, right_, sums_;
  uint8_t *query_, *weights_;
  QattentionOperand keys_, values_;
  uint8_t* gathered_;
  float *scores_, *results_, *mask_, *scales_, *zeros_;
  int64_t n_ = -1, h_ = -1;  // batch and head whose keys and values are packed
};

}  // namespace

bool qattention_fits(int64_t S, int64_t E) {
  constexpr int64_t kMost = 2 * 255 * 128;  // bound of a product with its zero-point terms
  return std::max(S, E) <= std::numeric_limits<int32_t>::max() / kMost;
}

std::span<const KernelRow<QattentionFunction>> qattention_kernels() { return kRows; }

void qattention(const QattentionCall& call) {
  qattention(call, first_usable(qattention_kernels()).function);
}

void qattention(const QattentionCall& call, QattentionFunction* row) {
  const QattentionKernels& kernels = row();
  const int64_t most = rows_at_once(call);
  const int64_t blocks = divide_up(call.L, most);
  const int64_t work = most * call.S * call.E * 2;
  const int64_t grain = std::max<int64_t>(1, kGrain / work);
  parallel_for(0, call.N * call.H * blocks, grain, [&](int64_t begin, int64_t end) {
    Queries queries(call, kernels, most);
    for (int64_t i = begin; i < end; ++i) {
      const int64_t head = i / blocks, l0 = i % blocks * most;
      queries.run(head / call.H, head % call.H, l0, std::min(most, call.L - l0));
    }
  });
}

}  // namespace cpuaccel::kernels
