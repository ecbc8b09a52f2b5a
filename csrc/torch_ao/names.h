// Names of the int8 engine that the files of this folder use.
#pragma once

#include "quant/layer.h"

namespace cpuaccel::torch_ao {

using quant::BytePostOps;
using quant::ConvParameters;
using quant::LayerKind;
using quant::LayerShape;
using quant::PostOp;
using quant::QuantCall;

}  // namespace cpuaccel::torch_ao
