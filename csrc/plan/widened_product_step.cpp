#include "plan/widened_product_step.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "plan/elementwise_step.h"
#include "plan/packed_matrix.h"
#include "plan/widened.h"

namespace cpuaccel::plan {
namespace {

// Without packed weights, the second input is the right matrix.
class WidenedProductStep : public Step {
 public:
  WidenedProductStep(RowsCall rows, std::shared_ptr<const PackedMatrix> weights)
      : rows_(std::move(rows)), weights_(std::move(weights)) {}

  void run(std::span<void* const> in, std::span<void* const> out) const override {
    if (weights_ != nullptr) {
      weights_->multiply(rows_.on(in, 1, out[0]));
      return;
    }
    auto call = rows_.on(in, 2, out[0]);
    call.b.data = in[1];
    kernels::gemm(call);
  }
  std::string kernel() const override {
    return std::string("cpuaccel gemm:") + kernels::first_usable(kernels::gemm_kernels()).name +
           (weights_ != nullptr ? ":packed" : "");
  }
  bool reads_in_place() const override { return weights_ == nullptr; }
  bool fits_team() const override { return true; }

 private:
  RowsCall rows_;
  std::shared_ptr<const PackedMatrix> weights_;
};

// With more rows, packed weights take half to nine tenths of the time (Zen 3, 2 to 24 rows). With
// one, as in a decoder's step, they take 0.9, and their memory besides that of the weights.
constexpr int64_t kRowsInPlace = 1;

void add_step(Building& building, const Layer& layer, const RowsCall& rows) {
  std::shared_ptr<const PackedMatrix> weights;
  const DataType type = rows.call.b.type;
  const auto bytes = static_cast<size_t>(rows.call.N * rows.call.K * data_type_size(type));
  if (building.is_constant(layer.weights) && rows.call.batch == 1 && rows.call.M > kRowsInPlace &&
      building.packed().has_room(layer.dst, type, bytes)) {
    if (const void* const data = building.constant(layer.weights)) {
      weights = building.packed().cached<PackedMatrix>(layer.dst, type, [&] {
        auto b = rows.call.b;
        b.data = data;
        return std::make_shared<PackedMatrix>(b, rows.call.K, rows.call.N, false);
      });
    }
  }
  const std::vector<Id> inputs =
      weights != nullptr ? std::vector{layer.src} : std::vector{layer.src, layer.weights};
  auto step = std::make_unique<WidenedProductStep>(rows, std::move(weights));
  rows.connect(*step, inputs, layer.dst);
  step->arithmetic = DataType::f32;
  building.add(std::move(step));
}

// The stride of all dimensions before the last two as one; nullopt if no one stride fits them. A
// tensor without them repeats.
std::optional<int64_t> batch_stride(const TensorDesc& desc) {
  if (desc.sizes.size() < 3) {
    return 0;
  }
  const auto flat = flattened(desc, 2);
  return flat ? std::optional(flat->strides[0]) : std::nullopt;
}

// A product of two matrices, or of as many pairs of them as the left operand has. Neither needs to
// be constant.
std::optional<RowsCall> as_batch(const Building& building, const Layer& layer) {
  const auto &a = building.desc(layer.src), &b = building.desc(layer.weights);
  const size_t rank = a.sizes.size(), b_rank = b.sizes.size();
  const auto& attributes = layer.operation->attributes;
  const auto a_batch = rank < 2 ? std::nullopt : batch_stride(a);
  const auto b_batch = b_rank < 2 ? std::nullopt : batch_stride(b);
  if (!a_batch || !b_batch || layer.bias || !layer.post_ops.empty() ||
      (b_rank != 2 && b_rank != rank) ||
      (b_rank > 2 && !std::equal(a.sizes.begin(), a.sizes.end() - 2, b.sizes.begin()))) {
    return std::nullopt;
  }
  struct MatrixAxes {
    size_t row, column;
  };
  const auto axes = [](size_t of, bool transposed) {
    return transposed ? MatrixAxes{of - 1, of - 2} : MatrixAxes{of - 2, of - 1};
  };
  const MatrixAxes in_a = axes(rank, attribute(attributes, "transpose_a", false));
  const MatrixAxes in_b = axes(b_rank, attribute(attributes, "transpose_b", false));
  if (a.sizes[in_a.column] != b.sizes[in_b.row]) {
    return std::nullopt;
  }
  RowsCall rows;
  auto& call = rows.call;
  call.M = a.sizes[in_a.row];
  call.K = a.sizes[in_a.column];
  call.N = b.sizes[in_b.column];
  call.batch = count_of(Sizes(a.sizes.begin(), a.sizes.end() - 2));
  call.a = {nullptr, building.type(layer.src), a.strides[in_a.row], a.strides[in_a.column],
            *a_batch};
  call.b = {nullptr, building.type(layer.weights), b.strides[in_b.row], b.strides[in_b.column],
            *b_batch};
  call.dst = {nullptr, building.type(layer.dst), call.N, call.M * call.N};
  Sizes sizes = a.sizes;
  sizes[rank - 2] = call.M;
  sizes[rank - 1] = call.N;
  rows.src = a;
  rows.dst = dense(std::move(sizes), MemoryFormat::contiguous);
  return rows;
}

TensorDesc contiguous(const Building& building, Id id) {
  return dense(building.desc(id).sizes, MemoryFormat::contiguous);
}

// Adds the step of a layer, which reads `src` and `weights`. Returns false if it is no such
// product.
bool add_product(Building& building, Layer layer, Id src, Id weights) {
  layer.src = src;
  layer.weights = weights;
  auto rows = as_rows(building, layer);
  if (!rows) {
    rows = as_batch(building, layer);
  }
  if (rows) {
    add_step(building, layer, *rows);
  }
  return rows.has_value();
}

}  // namespace

DeclineReason make_widened_product(StepRequest& request) {
  auto& building = request.building;
  const auto& operations = request.partition().operations;
  const auto& first = operations.front();
  if (first.kind != dnnl::graph::op::kind::MatMul) {
    return "not a matrix product";
  }
  const auto type = building.type(first.inputs[1]);
  if (!is_widened(type) || building.type(first.inputs[0]) != type) {
    return "the CPU has arithmetic of the type";
  }
  if (is_read_on_the_way(request)) {
    return "a result on the way is read by other operations";
  }
  Id src = first.inputs[0], weights = first.inputs[1];
  if (building.is_constant(weights) && !attribute(first.attributes, "transpose_a", false)) {
    src = dense_copy(building, src, contiguous(building, src));
  } else {
    for (Id* const operand : {&src, &weights}) {
      if (!batch_stride(building.desc(*operand))) {
        *operand = dense_copy(building, *operand, contiguous(building, *operand));
      }
    }
  }
  // As many of the operations as gemm computes in one call, and the rest after it.
  const std::span all(operations);
  for (size_t count = all.size(); count > 0; --count) {
    const Partition front{{all.begin(), all.begin() + static_cast<ptrdiff_t>(count)}};
    const auto layer = as_layer(front);
    if (layer && add_product(building, *layer, src, weights)) {
      return count == all.size() ? kAdded : add_elementwise(building, all.subspan(count));
    }
  }
  return "a product whose operands gemm cannot read";
}

}  // namespace cpuaccel::plan
