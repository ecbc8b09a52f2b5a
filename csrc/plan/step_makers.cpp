#include "plan/step_makers.h"

#include "plan/batch_norm_step.h"
#include "plan/concat_chain.h"
#include "plan/elementwise_step.h"
#include "plan/few_rows_step.h"
#include "plan/gate_step.h"
#include "plan/layer_step.h"
#include "plan/norm_step.h"
#include "plan/packed_rows_step.h"
#include "plan/partition_step.h"
#include "plan/pool_step.h"
#include "plan/step_registry.h"
#include "plan/sum_step.h"
#include "plan/widened_product_step.h"
#include "plan/winograd_step.h"

namespace cpuaccel::plan {
namespace {

constexpr StepMaker kStepMakers[] = {
    {"norm", make_norm},
    {"registered kind", make_registered},
    {"concat chain", make_concat_chain},
    {"batch norm", make_batch_norm},
    {"sum", make_sum},
    {"gate", make_gate},
    {"few rows", make_few_rows},
    {"packed rows", make_packed_rows},
    {"widened product", make_widened_product},
    {"elementwise", make_elementwise},
    {"winograd", make_winograd},
    {"layer", make_layer},
    {"pool", make_pool},
    {"partition", make_partition},  // oneDNN Graph itself; it never declines
};

}  // namespace

std::span<const StepMaker> step_makers() { return kStepMakers; }

const std::optional<Layer>& StepRequest::layer() {
  if (!layer_) {
    layer_ = as_layer(partition());
  }
  return *layer_;
}

const std::optional<RowsCall>& StepRequest::rows() {
  if (!rows_) {
    rows_ = layer() ? as_rows(building, *layer()) : std::nullopt;
  }
  return *rows_;
}

}  // namespace cpuaccel::plan
