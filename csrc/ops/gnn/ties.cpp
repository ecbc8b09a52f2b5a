#include "ops/gnn/ties.h"

#include "ops/data_type.h"
#include "ops/gnn/csr.h"
#include "ops/gnn/rows.h"

namespace cpuaccel::ops {

kernels::ScatterCall ties_call(const at::Tensor& src, const at::Tensor& result) {
  const auto rows = rows_of(src);
  kernels::ScatterCall call;
  call.op = kernels::ScatterOp::ties;
  call.E = src.size(0);
  call.N = result.size(0);
  call.K = rows->columns;
  call.type = data_type(src.scalar_type());
  call.src = src.const_data_ptr();
  call.src_stride = rows->stride;
  call.dst_stride = call.K;
  call.value = result.const_data_ptr();
  return call;
}

kernels::ScatterAmaxGradCall scatter_amax_grad_call(const kernels::ScatterCall& count,
                                                    const at::Tensor& share,
                                                    const at::Tensor& dst) {
  kernels::ScatterAmaxGradCall call;
  call.E = count.E;
  call.N = count.N;
  call.K = count.K;
  call.index = count.index;
  call.wide = count.wide;
  call.type = count.type;
  call.src = count.src;
  call.src_stride = count.src_stride;
  call.value = count.value;
  call.share = share.const_data_ptr();
  call.dst = dst.mutable_data_ptr();
  call.nan_ties = count.nan_ties != 0;
  return call;
}

}  // namespace cpuaccel::ops
