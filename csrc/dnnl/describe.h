// Creates oneDNN primitive descriptors for problems.
#pragma once

#include "dnnl/api.h"
#include "dnnl/matmul_problem.h"
#include "dnnl/problem.h"

namespace cpuaccel::dnnl_layer {

// The process's CPU engine.
const dnnl::engine& engine();

// Both throw dnnl::error if oneDNN has no implementation.
dnnl::primitive_desc_base describe(const Problem& problem);
dnnl::primitive_desc_base describe(const MatmulProblem& problem);

}  // namespace cpuaccel::dnnl_layer
