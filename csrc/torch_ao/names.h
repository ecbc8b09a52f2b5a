// Names of csrc/ops and of the int8 engine that the files of this folder use.
#pragma once

#include "ops/kernel_call.h"
#include "ops/override.h"
#include "ops/reasons.h"
#include "ops/torch_kernel.h"
#include "quant/layer.h"

namespace cpuaccel::torch_ao {

namespace reasons = ops::reasons;
using ops::call_torch;
using ops::KernelCall;
using ops::OpName;
using ops::Override;
using ops::report_fallback;
using ops::torch_kernel;
using quant::BytePostOps;
using quant::ConvParameters;
using quant::LayerKind;
using quant::LayerShape;
using quant::PostOp;
using quant::QuantCall;

}  // namespace cpuaccel::torch_ao
