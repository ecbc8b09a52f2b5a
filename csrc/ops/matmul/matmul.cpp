// aten::mm, addmm, bmm and baddbmm in float, bfloat16 and half: functional, out= and in place.
// linear, matmul and their derivatives call them.

#include <c10/core/GradMode.h>

#include <array>
#include <optional>
#include <stdexcept>

#include "base/isa.h"
#include "kernels/gemm_bf16/gemm_bf16.h"
#include "ops/data_type.h"
#include "ops/learning.h"
#include "ops/matmul/addend.h"
#include "ops/matmul/call.h"
#include "ops/matmul/fastmath.h"
#include "ops/matmul/providers.h"
#include "ops/matmul/run.h"
#include "ops/overlap.h"
#include "ops/override.h"
#include "ops/prepack/packed_weight.h"
#include "ops/roofline.h"
#include "ops/tensor_cache.h"
#include "ops/torch_compat/cpu_kernels.h"
#include "ops/torch_compat/tensors.h"
#include "ops/torch_kernel.h"

namespace cpuaccel::ops {
namespace {

// torch's own kernels are called unboxed, as torch's dispatcher does: a boxed call costs more than
// a small product.

const char* run(Provider provider, const MatmulCall& call) {
  switch (provider) {
    case Provider::cpuaccel:
      return run_cpuaccel_matmul(call);
    case Provider::onednn:
#ifdef CPUACCEL_HAS_ONEDNN
      return run_onednn_matmul(call);
#else
      return "built without oneDNN";
#endif
    case Provider::fbgemm:
    case Provider::intree:
    case Provider::count_:
      break;
  }
  return "torch's kernel is selected";
}

// How a call chooses its provider.
struct By {
  std::optional<Provider> provider;  // none: by table, or learned
  bool is_probe = false;             // of a learned choice, whose result is discarded
};

// The provider that was chosen; is_taken unless torch computes the product.
struct Taken {
  MatmulCall call;
  bool is_taken = false, is_probe = false;
  Provider provider = Provider::intree;
  LearnedChoice* open = nullptr;      // null: the choice is made
  std::array<at::Tensor, 2> rounded;  // operands of fast math, which `call` points into
  at::Tensor packed;                  // likewise
  explicit operator bool() const { return is_taken; }
};

// The operands of bmm are usually activations, which are not worth caching.
bool has_weight(Op op) { return op == Op::mm || op == Op::addmm; }

// Whether the packed weights of eager calls are cached: on Arm, where torch packs them again in
// every call. For few rows, weights are read in place. While gradients are recorded, weights change
// with every training step.
bool caches_packed(Op op, const MatmulCall& call, const at::Tensor& weights) {
  return caches_eager_weights() && has_weight(op) && cacheable(weights) &&
         call.M > kernels::kGemmBf16Few && call.N > kernels::kGemmBf16Few &&
         call.src_type == call.weights_type && call.weights_type != at::kHalf &&
         !c10::GradMode::is_enabled();
}

void use_cached_packed(Taken& taken, const at::Tensor& weights) {
  MatmulCall& call = taken.call;
  const std::array sources{&weights};
  if (packs_pairs() && (call.weights_type == at::kBFloat16 || call.rounds)) {
    taken.packed = weight_cache().get(sources, kPairsForm + pairs_panel(),
                                      [&] { return pack_pairs(weights); });
    call.pairs = taken.packed.const_data_ptr();
  } else {
    taken.packed = weight_cache().get(sources, kPanelsForm + gemm_panel(),
                                      [&] { return pack_panels(weights); });
    call.panels = taken.packed.const_data_ptr();
  }
}

// Chooses the provider, and sets operands as they are or rounded.
void choose(Taken& taken, Op op, const at::Tensor& src, const at::Tensor& weights, const By& by) {
  MatmulCall& call = taken.call;
  taken.is_probe = by.is_probe;
  if (call.type == at::kFloat && fastmath_on()) {
    taken.is_taken = true;
    if (rounds_while_packing()) {
      set_operands(call, src, weights);
      call.rounds = true;
      taken.provider = Provider::cpuaccel;
      return;
    }
    taken.rounded = {to_bfloat16(src),
                     has_weight(op) ? weight_to_bfloat16(weights) : to_bfloat16(weights)};
    set_operands(call, taken.rounded[0], taken.rounded[1]);
    taken.provider = has_amx_arithmetic() ? Provider::onednn : Provider::cpuaccel;
    return;
  }
  if (by.provider) {
    taken.provider = *by.provider;
  } else {
    const auto chosen =
        choose_matmul_provider(call, src, weights, op == Op::addmm || op == Op::baddbmm);
    taken.provider = chosen.provider;
    taken.open = chosen.open;
  }
  if (taken.provider == Provider::intree) {
    return;
  }
  set_operands(call, src, weights);
  taken.is_taken = true;
}

Taken take(Op op, const at::Tensor& src, const at::Tensor& weights, const By& by = {}) {
  Taken taken;
  if (set_sizes(taken.call, src, weights, op == Op::bmm || op == Op::baddbmm)) {
    choose(taken, op, src, weights, by);
    if (!taken && !taken.is_probe && taken.open == nullptr) {
      calls().add(op, Provider::intree);
    }
    if (taken && taken.provider == Provider::cpuaccel && caches_packed(op, taken.call, weights)) {
      use_cached_packed(taken, weights);
    }
  }
  return taken;
}

bool ran(Op op, const Taken& taken) {
  if (const char* reason = run(taken.provider, taken.call)) {
    if (taken.is_probe) {
      throw std::runtime_error(reason);
    }
    report_fallback(op_name(op), reason);
    return false;
  }
  if (!taken.is_probe) {
    calls().add(op, taken.provider);
  }
  return true;
}

// f32 products have a known bound; those of 16 bits may run on tiles.
double least_seconds(const MatmulCall& call) {
  return call.type == at::kFloat ? least_seconds_of_floats(multiply_adds(call)) : 0.0;
}

// learn() of a product; by(By) computes it.
template <typename Compute>
at::Tensor learn_product(const Taken& taken, const Compute& by) {
  return learn(*taken.open, static_cast<int>(taken.provider), multiply_adds(taken.call),
               least_seconds(taken.call), [&](int provider, bool is_probe) {
                 return by({static_cast<Provider>(provider), is_probe});
               });
}

template <Op kOp>
at::Tensor product_by(const at::Tensor& src, const at::Tensor& weights, const By& by) {
  auto taken = take(kOp, src, weights, by);
  if (taken.open != nullptr) {
    return learn_product(taken,
                         [&](const By& each) { return product_by<kOp>(src, weights, each); });
  }
  if (taken) {
    auto out = make_dst(taken.call);
    if (ran(kOp, taken)) {
      return out;
    }
  }
  return kOp == Op::mm ? at::cpu::mm(src, weights) : at::cpu::bmm(src, weights);
}

template <Op kOp>
at::Tensor product(const at::Tensor& src, const at::Tensor& weights) {
  if (!is_gemm_type(src.scalar_type())) {
    return kOp == Op::mm ? at::cpu::mm(src, weights) : at::cpu::bmm(src, weights);
  }
  return product_by<kOp>(src, weights, {});
}

// Whether torch resizes `out` to the size of the product.
bool resizes(const at::Tensor& src, const at::Tensor& weights, const at::Tensor& out) {
  const int64_t dims = src.dim();
  return dims < 2 || weights.dim() != dims || out.dim() != dims ||
         out.size(dims - 2) != src.size(dims - 2) || out.size(dims - 1) != weights.size(dims - 1) ||
         (dims == 3 && out.size(0) != src.size(0));
}

// Operands that do not overlap `out`.
struct Apart {
  c10::MaybeOwned<at::Tensor> src, weights;
};

Apart apart_from_out(const at::Tensor& src, const at::Tensor& weights, const at::Tensor& out) {
  const auto resized = [&] { return resizes(src, weights, out); };
  return {apart_from(src, out, resized), apart_from(weights, out, resized)};
}

// Whether torch's kernel can compute the product at once: it has another type, and no operand
// shares memory with `out`.
bool is_torchs(const at::Tensor& src, const at::Tensor& weights, const at::Tensor& out) {
  return !is_gemm_type(src.scalar_type()) && !share_storage(src, out) &&
         !share_storage(weights, out);
}

template <Op kOp>
at::Tensor& torch_product_out(const at::Tensor& src, const at::Tensor& weights, at::Tensor& out) {
  return kOp == Op::mm ? at::cpu::mm_outf(src, weights, out) : at::cpu::bmm_outf(src, weights, out);
}

template <Op kOp>
at::Tensor& product_out(const at::Tensor& src_, const at::Tensor& weights_, at::Tensor& out) {
  if (is_torchs(src_, weights_, out)) {
    return torch_product_out<kOp>(src_, weights_, out);
  }
  const Apart apart = apart_from_out(src_, weights_, out);
  const at::Tensor &src = *apart.src, &weights = *apart.weights;
  if (auto taken = take(kOp, src, weights)) {
    if (set_dst(taken.call, out, src, weights) && ran(kOp, taken)) {
      return out;
    }
  }
  return torch_product_out<kOp>(src, weights, out);
}

// With alpha = 0, torch 2.13 on CPUs with AVX512-BF16 does not write the result of baddbmm in bf16,
// which is usually uninitialized memory.
template <Op kOp>
bool torch_writes_nothing(const at::Tensor& src, const at::Scalar& alpha) {
  return kOp == Op::baddbmm && src.scalar_type() == at::kBFloat16 && !alpha.isSymbolic() &&
         alpha.equal(0);
}

at::Tensor baddbmm_in_float(const at::Tensor& self, const at::Tensor& src,
                            const at::Tensor& weights, const at::Scalar& beta,
                            const at::Scalar& alpha) {
  return at::cpu::baddbmm(self.to(at::kFloat), src.to(at::kFloat), weights.to(at::kFloat), beta,
                          alpha)
      .to(src.scalar_type());
}

template <Op kOp>
at::Tensor torch_sum(const at::Tensor& self, const at::Tensor& src, const at::Tensor& weights,
                     const at::Scalar& beta, const at::Scalar& alpha) {
  return kOp == Op::addmm ? at::cpu::addmm(self, src, weights, beta, alpha)
                          : at::cpu::baddbmm(self, src, weights, beta, alpha);
}

template <Op kOp>
at::Tensor& torch_sum_out(const at::Tensor& self, const at::Tensor& src, const at::Tensor& weights,
                          const at::Scalar& beta, const at::Scalar& alpha, at::Tensor& out) {
  return kOp == Op::addmm ? at::cpu::addmm_outf(self, src, weights, beta, alpha, out)
                          : at::cpu::baddbmm_outf(self, src, weights, beta, alpha, out);
}

template <Op kOp>
at::Tensor& torch_sum_in_place(at::Tensor& self, const at::Tensor& src, const at::Tensor& weights,
                               const at::Scalar& beta, const at::Scalar& alpha) {
  return kOp == Op::addmm ? at::cpu::addmm_(self, src, weights, beta, alpha)
                          : at::cpu::baddbmm_(self, src, weights, beta, alpha);
}

template <Op kOp>
at::Tensor sum_by(const at::Tensor& self, const at::Tensor& src, const at::Tensor& weights,
                  const at::Scalar& beta, const at::Scalar& alpha, const By& by) {
  auto taken = take(kOp, src, weights, by);
  if (taken.open != nullptr) {
    return learn_product(
        taken, [&](const By& each) { return sum_by<kOp>(self, src, weights, beta, alpha, each); });
  }
  if (taken) {
    const Addend addend = addend_of(taken.call, self, beta, alpha);
    if (addend.kind != Addend::Kind::unsupported) {
      auto out = make_dst(taken.call);
      add_to(taken.call, addend, self);
      if (ran(kOp, taken)) {
        return out;
      }
    }
  }
  if (torch_writes_nothing<kOp>(src, alpha)) {
    return baddbmm_in_float(self, src, weights, beta, alpha);
  }
  return torch_sum<kOp>(self, src, weights, beta, alpha);
}

template <Op kOp>
at::Tensor sum(const at::Tensor& self, const at::Tensor& src, const at::Tensor& weights,
               const at::Scalar& beta, const at::Scalar& alpha) {
  return is_gemm_type(src.scalar_type()) ? sum_by<kOp>(self, src, weights, beta, alpha, {})
                                         : torch_sum<kOp>(self, src, weights, beta, alpha);
}

// `out` may be `self`, but may not overlap it otherwise.
template <Op kOp>
bool sum_into(const at::Tensor& self, const at::Tensor& src, const at::Tensor& weights,
              const at::Scalar& beta, const at::Scalar& alpha, const at::Tensor& out) {
  auto taken = take(kOp, src, weights);
  if (!taken || !set_dst(taken.call, out, src, weights)) {
    return false;
  }
  Addend addend = addend_of(taken.call, self, beta, alpha);
  if (addend.kind == Addend::Kind::bias && out.is_same(self)) {
    addend.kind = Addend::Kind::full;
  }
  if (addend.kind == Addend::Kind::unsupported ||
      (!out.is_same(self) && at::get_overlap_status(out, self) != at::MemOverlapStatus::No)) {
    return false;
  }
  add_to(taken.call, addend, self);
  return ran(kOp, taken);
}

template <Op kOp>
at::Tensor& sum_out(const at::Tensor& self_, const at::Tensor& src_, const at::Tensor& weights_,
                    const at::Scalar& beta, const at::Scalar& alpha, at::Tensor& out) {
  if (is_torchs(src_, weights_, out) && !share_storage(self_, out)) {
    return torch_sum_out<kOp>(self_, src_, weights_, beta, alpha, out);
  }
  const Apart apart = apart_from_out(src_, weights_, out);
  const at::Tensor &src = *apart.src, &weights = *apart.weights;
  const auto self_apart = addend_apart_from(self_, out);
  const at::Tensor& self = *self_apart;
  if (sum_into<kOp>(self, src, weights, beta, alpha, out)) {
    return out;
  }
  if (torch_writes_nothing<kOp>(src, alpha) && out.scalar_type() == src.scalar_type()) {
    const auto result = baddbmm_in_float(self, src, weights, beta, alpha);
    at::native::resize_output(out, result.sizes());
    return out.copy_(result);
  }
  return torch_sum_out<kOp>(self, src, weights, beta, alpha, out);
}

template <Op kOp>
at::Tensor& sum_in_place(at::Tensor& self, const at::Tensor& src_, const at::Tensor& weights_,
                         const at::Scalar& beta, const at::Scalar& alpha) {
  if (is_torchs(src_, weights_, self)) {
    return torch_sum_in_place<kOp>(self, src_, weights_, beta, alpha);
  }
  const auto stays = [] { return false; };
  const auto src_apart = apart_from(src_, self, stays);
  const auto weights_apart = apart_from(weights_, self, stays);
  const at::Tensor &src = *src_apart, &weights = *weights_apart;
  if (sum_into<kOp>(self, src, weights, beta, alpha, self)) {
    return self;
  }
  if (torch_writes_nothing<kOp>(src, alpha) && self.scalar_type() == src.scalar_type()) {
    const auto result = baddbmm_in_float(self, src, weights, beta, alpha);
    if (result.sizes() == self.sizes()) {
      return self.copy_(result);
    }
  }
  return torch_sum_in_place<kOp>(self, src, weights, beta, alpha);
}

template <auto kFunction>
constexpr Override row(const char* name) {
  return {name, c10::DispatchKey::CPU, as_cpp_function<kFunction>};
}

CPUACCEL_OVERRIDES{
    row<&product<Op::mm>>("aten::mm"),
    row<&product_out<Op::mm>>("aten::mm.out"),
    row<&sum<Op::addmm>>("aten::addmm"),
    row<&sum_out<Op::addmm>>("aten::addmm.out"),
    row<&sum_in_place<Op::addmm>>("aten::addmm_"),
    row<&product<Op::bmm>>("aten::bmm"),
    row<&product_out<Op::bmm>>("aten::bmm.out"),
    row<&sum<Op::baddbmm>>("aten::baddbmm"),
    row<&sum_out<Op::baddbmm>>("aten::baddbmm.out"),
    row<&sum_in_place<Op::baddbmm>>("aten::baddbmm_"),
};

}  // namespace

}  // namespace cpuaccel::ops
