#include <ATen/Parallel.h>
#include <ATen/ops/from_blob.h>

#include <memory>

#include "base/isa.h"
#include "dnnl/primitive_cache.h"
#include "ops/data_type.h"
#include "ops/matmul/run.h"

namespace cpuaccel::ops {
namespace {

namespace dl = dnnl_layer;

// oneDNN rejects strides that step over fewer elements than there are; strides of sizes 1 are free
// to choose.
std::array<int64_t, 3> strides_of(const std::array<int64_t, 3>& strides, int64_t rows,
                                  int64_t columns) {
  auto result = strides;
  if (columns == 1) {
    result[2] = 1;
  }
  if (rows == 1) {
    result[1] = result[2] == 1 ? columns : 1;
  }
  return result;
}

bool expanded(const std::array<int64_t, 3>& strides, int64_t batch, int64_t rows, int64_t columns) {
  return (batch > 1 && strides[0] == 0) || (rows > 1 && strides[1] == 0) ||
         (columns > 1 && strides[2] == 0);
}

at::Tensor view(void* data, const std::array<int64_t, 3>& strides, const MatmulCall& call) {
  return at::from_blob(data, {call.batch, call.M, call.N}, strides, at::dtype(call.type));
}

bool unit(const std::array<int64_t, 3>& strides) { return strides[1] == 1 || strides[2] == 1; }

}  // namespace

const char* run_onednn_matmul(const MatmulCall& call) {
  if (call.src_type != call.weights_type) {
    return "operands differ in dtype";
  }
  if (call.src_type != at::kFloat && !isa_usable(Isa::avx512)) {
    return "oneDNN needs AVX-512 for this dtype";
  }
  dl::MatmulProblem p;
  p.src_type = p.weights_type = data_type(call.src_type);
  p.dst_type = data_type(call.type);
  p.bias = call.bias != nullptr;
  p.threads = at::get_num_threads();
  p.isa = static_cast<int>(max_isa());
  p.alpha = call.alpha;
  p.beta = call.beta;
  p.batch = call.batch;
  p.M = call.M;
  p.N = call.N;
  p.K = call.K;
  p.src_strides = strides_of(call.src.strides, p.M, p.K);
  p.weights_strides = strides_of(call.weights.strides, p.K, p.N);
  p.dst_strides = strides_of(call.dst_strides, p.M, p.N);
  if (expanded(p.src_strides, p.batch, p.M, p.K) ||
      expanded(p.weights_strides, p.batch, p.K, p.N) || !unit(p.src_strides) ||
      !unit(p.weights_strides) || !unit(p.dst_strides)) {
    return "oneDNN has no kernel for these strides";
  }
  std::shared_ptr<const dl::Primitive> primitive;
  try {
    primitive = dl::PrimitiveCache::instance().get(p);
  } catch (const dnnl::error&) {
    return "oneDNN has no kernel for this product";
  }
  if (primitive->is_reference()) {
    return "oneDNN has no fast kernel for this product";
  }
  if (call.beta != 0.0f && call.c.data != call.dst) {
    view(call.dst, call.dst_strides, call)
        .copy_(view(const_cast<void*>(call.c.data), call.c.strides, call));
  }
  dl::Arguments arguments;
  arguments.src = call.src.data;
  arguments.weights = call.weights.data;
  arguments.bias = call.bias;
  arguments.dst = call.dst;
  primitive->execute(arguments);
  return nullptr;
}

}  // namespace cpuaccel::ops
