#include "ops/prepack/packed_weight.h"

#include <ATen/EmptyTensor.h>
#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>
#include <c10/util/Exception.h>
#include <torch/library.h>

#include <type_traits>
#include <utility>
#include <vector>

#include "base/counters.h"
#include "base/isa.h"
#include "base/plugin.h"
#include "kernels/gemm/kernels.h"
#include "kernels/round_up.h"
#include "ops/data_type.h"
#include "ops/reasons.h"

namespace cpuaccel::ops {
namespace {

#if defined(__aarch64__)
constexpr bool kOnArm = true;
#else
constexpr bool kOnArm = false;
#endif

int64_t panel_of(kernels::GemmFunction* row) { return row().nr; }
int64_t panel_of(kernels::GemmBf16Function* row) { return row().pairs().nr; }

// The row of a family's kernel list that reads the panels.
template <typename Function>
struct PackedRow {
  Function* row;
  bool usable;
};

// The first usable row of the kernel list with panels of this width, or else a row with such panels
// that is not usable now; null: they are another CPU's. Rows that this CPU lacks are not queried,
// because some have to ask the CPU for their width. A row of BF16 counts as usable on any CPU with
// AVX512-VNNI, because its panels can be read without BF16: callers check has_bf16_arithmetic().
template <typename Rows>
auto find_row(int64_t panel, const Rows& rows) {
  using Found = PackedRow<std::remove_pointer_t<decltype(rows.front().function)>>;
  for (const bool usable : {true, false}) {
    for (const auto& row : rows) {
      const Isa isa = named_isa(row.isa);
      if (isa_usable(isa) == usable && (usable || cpu_has(isa)) &&
          panel_of(row.function) == panel) {
        return Found{row.function, usable};
      }
    }
  }
  return Found{nullptr, false};
}

void check_panel(const char* op, int64_t panel) {
  TORCH_CHECK(panel > 0 && panel <= kernels::kGemmMaxNr && panel % 4 == 0, op,
              ": expected panel to be the panel width of a kernel, but got ", panel);
}

// Pairs of another CPU cannot be read: the width does not tell how many values are interleaved.
PackedRow<kernels::GemmBf16Function> find_pairs_row(const char* op, int64_t panel) {
  const auto found = find_row(panel, kernels::all_gemm_bf16_kernels());
  TORCH_CHECK(found.row != nullptr, op,
              ": expected panel to be the panel width of a kernel, but got ", panel);
  return found;
}

kernels::GemmFunction* best_row() {
  return kernels::first_usable(kernels::gemm_kernels()).function;
}

kernels::GemmBf16Function* best_pairs_row() {
  return kernels::first_usable(kernels::gemm_bf16_kernels()).function;
}

template <typename Rows>
std::vector<int64_t> usable_panels(const Rows& rows) {
  std::vector<int64_t> panels;
  for (const auto& row : rows) {
    const bool wanted = panels.empty() || (kOnArm && row.isa != Isa::ref);
    if (wanted && isa_usable(row.isa)) {
      panels.push_back(panel_of(row.function));
    }
  }
  return panels;
}

// Whether this is a size small enough that a product of two does not overflow.
bool possible(int64_t size) { return size >= 0 && size < int64_t{1} << 31; }

void check_packed(const char* op, const at::Tensor& packed) {
  TORCH_CHECK(packed.device().is_cpu() && packed.layout() == at::kStrided &&
                  (is_gemm_type(packed.scalar_type()) || packed.scalar_type() == at::kInt) &&
                  packed.dim() == 1 && packed.is_contiguous(),
              op, ": expected packed to be a result of pack_linear");
}

void check_shape(const char* op, const at::Tensor& packed, const PackedShape& shape,
                 int64_t depth) {
  TORCH_CHECK(possible(shape.out_features) && possible(shape.in_features) &&
                  packed.numel() == depth * kernels::round_up(shape.out_features, shape.panel),
              op, ": expected packed to hold weights of ", shape.out_features, " x ",
              shape.in_features, " in panels of ", shape.panel, ", but got ", packed.numel(),
              " elements");
}

at::Tensor empty_packed(int64_t depth, int64_t N, int64_t panel, at::ScalarType type) {
  return at::detail::empty_cpu({depth * kernels::round_up(N, panel)}, type);
}

kernels::GemmMatrix matrix_of(const at::Tensor& matrix) {
  return {matrix.const_data_ptr(), data_type(matrix.scalar_type()), matrix.stride(0),
          matrix.stride(1), 0};
}

at::Tensor pack_panels(const at::Tensor& matrix, int64_t panel) {
  const int64_t K = matrix.size(0), N = matrix.size(1);
  at::Tensor packed = empty_packed(K, N, panel, matrix.scalar_type());
  kernels::GemmPacked(packed.mutable_data_ptr(), data_type(matrix.scalar_type()), K, N, panel)
      .pack(matrix_of(matrix));
  return packed;
}

at::Tensor pack_pairs(const at::Tensor& matrix, kernels::GemmBf16Function* row) {
  const int64_t K = matrix.size(0), N = matrix.size(1);
  at::Tensor packed = empty_packed(row().count(K), N, panel_of(row), at::kInt);
  kernels::GemmBf16Packed(packed.mutable_data_ptr(), K, N, row).pack(matrix_of(matrix));
  return packed;
}

constexpr auto kPack = "cpuaccel::pack_linear";
constexpr auto kUnpack = "cpuaccel::unpack_linear";

at::Tensor pack_linear(const at::Tensor& weight, int64_t panel, bool pairs) {
  TORCH_CHECK(weight.dim() == 2 && is_gemm_type(weight.scalar_type()) &&
                  weight.layout() == at::kStrided && !weight.is_neg(),
              kPack, ": expected weight to be a matrix of float32, bfloat16 or float16, but got ",
              weight.scalar_type(), " of ", weight.dim(), " dimensions");
  TORCH_CHECK(!pairs || weight.scalar_type() != at::kHalf, kPack,
              ": expected weight to be of float32 or bfloat16 for pairs, but got ",
              weight.scalar_type());
  check_panel(kPack, panel);
  const at::Tensor packed = pairs ? pack_pairs(weight.t(), find_pairs_row(kPack, panel).row)
                                  : pack_panels(weight.t(), panel);
  prepacks().add(Op::packed_linear, Provider::cpuaccel);
  return packed;
}

}  // namespace

int64_t gemm_panel() { return panel_of(best_row()); }

std::vector<int64_t> gemm_panels() { return usable_panels(kernels::gemm_kernels()); }

std::vector<int64_t> pairs_panels() { return usable_panels(kernels::gemm_bf16_kernels()); }

bool packs_pairs() { return kOnArm && has_bf16_arithmetic(); }

bool caches_eager_weights() { return kOnArm; }

int64_t pairs_panel() { return panel_of(best_pairs_row()); }

int64_t pairs_depth(int64_t in_features) { return best_pairs_row()().count(in_features); }

at::Tensor pack_panels(const at::Tensor& matrix) { return pack_panels(matrix, gemm_panel()); }

at::Tensor pack_pairs(const at::Tensor& matrix) { return pack_pairs(matrix, best_pairs_row()); }

int64_t panel_in_use(bool pairs) { return pairs ? pairs_panel() : gemm_panel(); }

CachedPackedWeight pack_for_cache(const at::Tensor& weight, bool pairs) {
  const c10::InferenceMode normal(false);
  const at::NoGradGuard no_grad;
  const at::Tensor matrix = (weight.is_mkldnn() ? weight.to_dense() : weight).t();
  return {pairs ? pack_pairs(matrix) : pack_panels(matrix), panel_in_use(pairs)};
}

PackedView::PackedView(const char* op, const at::Tensor& packed, const PackedShape& shape)
    : type_(packed.scalar_type()), N_(shape.out_features), K_(shape.in_features) {
  check_packed(op, packed);
  check_panel(op, shape.panel);
  void* memory = const_cast<void*>(packed.const_data_ptr());
  if (type_ == at::kInt) {
    type_ = at::kBFloat16;
    const auto found = find_pairs_row(op, shape.panel);
    usable_ = found.usable && has_bf16_arithmetic();
    check_shape(op, packed, shape, found.row().count(K_));
    pairs_.emplace(memory, K_, N_, found.row);
    return;
  }
  check_shape(op, packed, shape, K_);
  const auto found = find_row(shape.panel, kernels::gemm_kernels());
  usable_ = found.usable;
  if (usable_) {
    floats_.emplace(memory, data_type(type_), K_, N_, found.row);
  } else {
    floats_.emplace(memory, data_type(type_), K_, N_, shape.panel);
  }
}

const char* PackedView::fallback_reason() const {
  if (!plugin_on()) {
    return reasons::kOff;
  }
  return usable_ ? nullptr : "packed for an ISA that is not in use";
}

kernels::GemmCall PackedView::product(int64_t M, const kernels::GemmMatrix& src, void* dst,
                                      DataType dst_type) const {
  kernels::GemmCall call;
  call.M = M;
  call.N = N_;
  call.K = K_;
  call.a = src;
  call.packed = floats_ ? &*floats_ : nullptr;
  call.dst = {dst, dst_type, call.N, 0};
  return call;
}

at::Tensor unpack_linear(const at::Tensor& packed, int64_t panel, int64_t out_features,
                         int64_t in_features) {
  PackedView view(kUnpack, packed, {panel, out_features, in_features});
  at::Tensor weight = at::detail::empty_cpu({out_features, in_features}, view.type());
  if (const auto* pairs = view.pairs()) {
    pairs->unpack(static_cast<uint16_t*>(weight.mutable_data_ptr()), 1, in_features);
  } else {
    std::move(view).take_weights().unpack(weight.mutable_data_ptr(), 1, in_features);
  }
  return weight;
}

TORCH_LIBRARY_FRAGMENT(cpuaccel, library) {
  library.def("pack_linear(Tensor weight, int panel, bool pairs=False) -> Tensor");
  library.def(
      "unpack_linear(Tensor packed, int panel, int out_features, int in_features) -> Tensor");
}

TORCH_LIBRARY_IMPL(cpuaccel, CPU, library) {
  library.impl("pack_linear", TORCH_FN(pack_linear));
  library.impl("unpack_linear", TORCH_FN(unpack_linear));
}

}  // namespace cpuaccel::ops
