// Family qattention: quantized scaled dot-product attention on u8, with attention weights that are
// rounded to u8.
//
//   score[n,h,l,s]  = scale * sum over e of real(query[n,h,l,e]) * real(key[n,h,s,e])
//                     + mask[n,h,l,s]
//   weight[n,h,l,s] = quantize(softmax over s of score[n,h,l,s])                           u8
//   dst[n,h,l,e]    = sum over s of real(weight[n,h,l,s]) * real(value[n,h,s,e])
//
//   n < N, h < H, l < L (queries), s < S (keys), e < E, all int64 and at least 1
//   query, key, value: u8, real(q) = (q - zero_point) * scale, any strides
//   mask: f32, any strides, or none
//   dst: f32, or u8 quantized as family quantize does it; its elements e are contiguous and its
//   rows do not overlap
//
// Products are exact in int32 if qattention_fits() is true; scores and the softmax are f32. Terms
// that are the same for all keys of a query do not change its softmax and are left out of the
// scores. A row whose keys are all masked has weights of 0.
//
// Weights are rounded to bytes only once the sum of a row is known. So the scores of some queries
// with all keys are stored, in about 64 KiB. Flash attention would have to round the weights again
// for each block of keys. Results are the same bits for any number of threads.
//
// Bound: 2 * L * S * E multiply-adds of bytes and L * S exponentials per head.
#pragma once

#include <cstdint>
#include <span>

#include "base/api.h"
#include "kernels/attention/attention.h"
#include "kernels/kernel_list.h"
#include "kernels/qconv/qconv.h"
#include "kernels/quantize/quantize.h"

namespace cpuaccel::kernels {

struct ByteQuantizer {
  float scale = 1.0f;
  int32_t zero_point = 0;  // 0 .. 255
};

// Element (n, h, row, column) is at data[n * batch_stride + h * head_stride + ...]; strides count
// elements.
template <typename T>
struct HeadMatrix {
  T* data = nullptr;
  int64_t batch_stride = 0, head_stride = 0, row_stride = 0, column_stride = 0;

  T* at(int64_t n, int64_t h, int64_t row) const {
    return data + n * batch_stride + h * head_stride + row * row_stride;
  }
};

struct QattentionCall {
  int64_t N = 0, H = 0, L = 0, S = 0, E = 0;
  HeadMatrix<const uint8_t> query, key, value;
  HeadMatrix<const float> mask;  // no mask if data is null
  ByteQuantizer query_quantizer, key_quantizer, value_quantizer, weight_quantizer;
  float scale = 1.0f;
  // Exactly one of the two is set; its column_stride is 1.
  HeadMatrix<float> dst_f32;
  HeadMatrix<uint8_t> dst_u8;
  ByteQuantizer dst_quantizer;  // for dst_u8
};

// Whether sums of S and of E products fit into int32, zero points included.
CPUACCEL_API bool qattention_fits(int64_t S, int64_t E);

// The kernels of other families that a row uses.
struct QattentionKernels {
  QconvFunction* multiply;
  AttentionFunction* softmax;
  QuantizeFunction* quantize;
};
using QattentionFunction = const QattentionKernels&();

std::span<const KernelRow<QattentionFunction>> qattention_kernels();

// Runs the best usable row on all of torch's threads.
CPUACCEL_API void qattention(const QattentionCall& call);

// Runs a given row.
CPUACCEL_API void qattention(const QattentionCall& call, QattentionFunction* row);

}  // namespace cpuaccel::kernels
