#include "quant/steps/quantize_rows.h"

#include <memory>
#include <string>
#include <type_traits>
#include <utility>

namespace cpuaccel::quant {
namespace {

class QuantizeRowsStep : public plan::Step {
 public:
  explicit QuantizeRowsStep(RowRounding rounding) : rounding_(std::move(rounding)) {}

  void run(Pointers in, Pointers out) const override {
    auto now = rounding_.call;
    const auto& [call, scales, zero_points] = rounding_;
    now.src = in[0];
    now.given = static_cast<int64_t>(scales.size());
    now.given_scales = scales.empty() ? nullptr : scales.data();
    now.given_zero_points = zero_points.empty() ? nullptr : zero_points.data();
    now.dst = static_cast<int8_t*>(out[0]);
    now.scales = static_cast<float*>(out[1]);
    now.zero_points = static_cast<int32_t*>(out[2]);
    kernels::quantize_by_row(now);
  }
  std::string kernel() const override {
    return std::string("cpuaccel quantize_by_row:") +
           kernels::first_usable(kernels::quantize_by_row_kernels()).name;
  }
  bool fits_team() const override { return true; }

 private:
  const RowRounding rounding_;
};

// What decides on the integers, apart from the source.
std::string key_of(const RowRounding& rounding) {
  const auto& call = rounding.call;
  std::string key = "quantize_by_row " + std::to_string(static_cast<int>(call.mode)) + " " +
                    std::to_string(static_cast<int>(call.symmetric)) + " " +
                    std::to_string(call.low) + " " + std::to_string(call.high) + " " +
                    std::to_string(call.K);
  const auto append = [&](const auto& values) {
    using T = typename std::decay_t<decltype(values)>::value_type;
    key += " ";
    key.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
  };
  append(rounding.scales);
  append(rounding.zero_points);
  return key;
}

}  // namespace

std::vector<Id> quantized_rows(Building& building, Id src, int64_t K, RowRounding rounding) {
  auto& call = rounding.call;
  call.type = building.type(src);
  call.K = call.row_stride = K;
  call.M = count_of(building.desc(src).sizes) / K;
  auto& rows = building.derived(src, key_of(rounding));
  if (rows.empty()) {
    const int64_t M = call.M;
    rows = {building.new_value(DataType::s8), building.new_value(DataType::f32),
            building.new_value(DataType::s32)};
    auto step = std::make_unique<QuantizeRowsStep>(std::move(rounding));
    step->inputs = {src};
    step->outputs = rows;
    step->output_descs = {plan::dense({M, K}, MemoryFormat::contiguous),
                          plan::dense({M}, MemoryFormat::contiguous),
                          plan::dense({M}, MemoryFormat::contiguous)};
    step->facts.kinds = "quantize rows";
    building.add(std::move(step));
  }
  return rows;
}

}  // namespace cpuaccel::quant
