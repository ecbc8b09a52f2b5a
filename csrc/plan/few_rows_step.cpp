#include "plan/few_rows_step.h"

#include <memory>
#include <utility>

namespace cpuaccel::plan {
namespace {

// Up to this M, reading the weights takes longer than multiplying. For bf16 it is 1: products with
// more rows are faster in BF16 arithmetic.
constexpr int64_t most_rows(DataType weights) { return weights == DataType::f32 ? 4 : 1; }

class FewRowsStep : public Step {
 public:
  explicit FewRowsStep(RowsCall rows) : rows_(std::move(rows)) {}

  void run(std::span<void* const> in, std::span<void* const> out) const override {
    auto call = rows_.on(in, 2, out[0]);
    call.b.data = in[1];
    kernels::gemm(call);
  }
  std::string kernel() const override {
    return std::string("cpuaccel gemm:") + kernels::first_usable(kernels::gemm_kernels()).name;
  }
  bool reads_in_place() const override { return true; }
  bool fits_team() const override { return true; }

 private:
  RowsCall rows_;
};

}  // namespace

DeclineReason make_few_rows(StepRequest& request) {
  const auto& rows = request.rows();
  if (!rows) {
    return kNotRows;
  }
  if (request.building.fast_math()) {
    return "fast math packs weights in bfloat16";
  }
  if (rows->call.M > most_rows(rows->call.b.type)) {
    return "too many rows";
  }
  const auto& layer = *request.layer();
  auto step = std::make_unique<FewRowsStep>(*rows);
  rows->connect(*step, {layer.src, layer.weights}, layer.dst);
  request.building.add(std::move(step));
  return kAdded;
}

}  // namespace cpuaccel::plan
