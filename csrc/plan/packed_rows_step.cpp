#include "plan/packed_rows_step.h"

#include <memory>
#include <string>
#include <utility>

#include "base/amx.h"
#include "base/isa.h"
#include "dnnl/tuning_cache.h"
#include "plan/packed_matrix.h"
#include "plan/packed_rows_tuning.h"

namespace cpuaccel::plan {
namespace {

// The largest M for which cpuaccel's kernels are timed. With more rows, oneDNN's products are bound
// by arithmetic, as cpuaccel's are. With AMX, which multiplies many times as fast, they are still
// bound by memory. In f32, cpuaccel's products are nearer to the peak on x86.
int64_t most_rows(bool bf16) {
  constexpr int64_t kFew = 64, kMany = int64_t{1} << 18;
  const bool many = bf16 ? amx_tiles_usable() : isa_usable(Isa::avx2);
  return many ? kMany : kFew;
}
// With more weights, input and output elements, or products, tuning would take long: some tenths of
// a second.
constexpr int64_t kMostWeights = int64_t{1} << 24, kMostNumbers = int64_t{1} << 26,
                  kMostProducts = int64_t{1} << 34;

bool is_tuned(const kernels::GemmCall& call, bool bf16) {
  // M is bounded first, and weights before products, so nothing overflows int64.
  return call.M <= most_rows(bf16) && call.N <= kMostWeights && call.K <= kMostWeights &&
         call.N * call.K <= kMostWeights && call.M * (call.N + call.K) <= kMostNumbers &&
         call.M * call.N * call.K <= kMostProducts;
}

class PackedRowsStep : public Step {
 public:
  PackedRowsStep(RowsCall rows, std::shared_ptr<const PackedMatrix> weights)
      : rows_(std::move(rows)), weights_(std::move(weights)) {}

  void run(std::span<void* const> in, std::span<void* const> out) const override {
    weights_->multiply(rows_.on(in, 1, out[0]));
  }
  std::string kernel() const override { return "cpuaccel " + weights_->kernel() + ":packed"; }
  bool fits_team() const override { return true; }

 private:
  RowsCall rows_;
  std::shared_ptr<const PackedMatrix> weights_;
};

// The numbers of a type and of an activation in keys of the tuning cache. Files of earlier versions
// have these numbers.
int key_number(DataType type) { return type == DataType::bf16 ? 1 : 0; }
int key_number(Activation activation) { return static_cast<int>(activation) - 1; }

// The key in the tuning cache: everything that decides which is faster. `over`: whether oneDNN's
// sum overwrites its addend.
std::string tuning_key(const RowsCall& rows, bool bf16, bool over) {
  const auto& call = rows.call;
  std::string text = rows.is_of_pixels ? "pixels of" : "rows of";
  for (const int64_t size : rows.src.sizes) {
    text += " " + std::to_string(size);
  }
  text += ":";
  for (const int64_t number : {call.N, int64_t{bf16}}) {
    text += " " + std::to_string(number);
  }
  for (const auto type : {call.a.type, call.b.type, call.dst.type}) {
    text += " " + std::to_string(key_number(type));
  }
  text += rows.bias ? " bias" : "";
  if (rows.addend) {
    text += " sum" + std::to_string(key_number(call.c.type)) + (over ? " over" : "");
  }
  if (rows.eltwise != Activation::none) {
    text += " function" + std::to_string(key_number(rows.eltwise));
  }
  return text + " " + dnnl_layer::tuning_conditions();
}

// 1 if cpuaccel's kernel is faster.
int tuned_choice(Building& building, const Layer& layer, const RowsCall& rows,
                 const std::string& key, bool bf16) try {
  const auto onednn = primitives_of(building, layer);
  return onednn && cpuaccel_is_faster(key, *onednn, rows, bf16) ? 1 : 0;
} catch (const dnnl::error&) {
  return 0;  // make_layer() comes next and reports the error
}

}  // namespace

DeclineReason make_packed_rows(StepRequest& request) {
  if (!request.rows()) {
    return kNotRows;
  }
  auto& building = request.building;
  const auto& layer = *request.layer();
  const auto& rows = *request.rows();
  const auto& call = rows.call;
  const bool bf16 = call.b.type == DataType::bf16 || building.fast_math();
  if (!is_tuned(call, bf16)) {
    return "too many rows, weights or products for tuning";
  }
  if (!dnnl_layer::tuning_enabled()) {
    return "tuning is off";
  }
  const void* const data = building.constant(layer.weights);
  if (data == nullptr) {
    return "the weights have no data";
  }
  if (!PackedMatrix::takes(call, bf16)) {
    return "no kernel with packed weights on this CPU";
  }
  const auto type = bf16 ? DataType::bf16 : DataType::f32;
  const auto bytes = static_cast<size_t>(call.N * call.K * data_type_size(type));
  if (!building.packed().has_room(layer.dst, type, bytes)) {
    return "no room for packed weights";
  }
  const auto key =
      tuning_key(rows, bf16, rows.addend && building.may_overwrite(layer.dst, *rows.addend));
  if (dnnl_layer::tuning_result(
          key, [&] { return tuned_choice(building, layer, rows, key, bf16); }) == 0) {
    return "tuning chose oneDNN";
  }
  auto weights = building.packed().cached<PackedMatrix>(layer.dst, type, [&] {
    auto b = call.b;
    b.data = data;
    return std::make_shared<PackedMatrix>(b, call.K, call.N, bf16);
  });
  auto step = std::make_unique<PackedRowsStep>(rows, std::move(weights));
  rows.connect(*step, {layer.src}, layer.dst);
  if (building.fast_math()) {
    step->arithmetic = DataType::bf16;
  }
  building.add(std::move(step));
  return kAdded;
}

}  // namespace cpuaccel::plan
