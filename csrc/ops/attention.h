// When attention is family attention's, and in which arithmetic.
#pragma once

#include "kernels/gemm/types.h"

namespace cpuaccel::ops {

// Why nothing is to be computed by it on this CPU; null: it may be.
const char* why_no_attention();

// Whether products are to be of bf16 now, for queries of this type.
bool attention_in_bf16(kernels::GemmType query);

}  // namespace cpuaccel::ops
