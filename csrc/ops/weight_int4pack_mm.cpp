// aten::_weight_int4pack_mm_for_cpu: a float matrix times int4 weights with a scale and a zero for
// each group of k.
//
//   result[m,n] = sum over k of self[m,k] * ((code[k,n] - 8) * scale[g,n] + zero[g,n]),
//   g = k / qGroupSize
//
// self M x K of f32, bf16 or f16, as the result and qScaleAndZeros (K / qGroupSize x N x 2). mat2
// is N x K / 2 bytes, as aten::_convert_weight_to_int4pack_for_cpu packs codes for the instructions
// that torch uses on this CPU (ATEN_CPU_CAPABILITY):
//
//   AVX-512        blocks of 64 n; for each k 32 bytes, byte b of n = b (low half) and b + 32
//   AVX2           blocks of 32 n; for each k 16 bytes, byte b of n = b (low half) and b + 16
//   otherwise, and in a last block of fewer n
//                  for each k a byte for each two n, n = 2 b (low half) and 2 b + 1
//
// torch does not check the sizes and the type of qScaleAndZeros, and reads past its end.

#include <ATen/EmptyTensor.h>
#include <ATen/Version.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/parallel.h"
#include "base/plugin.h"
#include "kernels/gemm_wq/gemm_wq.h"
#include "ops/data_type.h"
#include "ops/override.h"
#include "ops/packed_weight_cache.h"
#include "ops/reasons.h"
#include "ops/torch_kernel.h"

namespace cpuaccel::ops {
namespace {

constexpr auto kInt4Pack = "weight_int4pack_mm";

// Columns of torch's blocks.
int64_t torch_block() {
  static const int64_t columns = at::get_cpu_capability() == "AVX512" ? 64 : 32;
  return columns;
}
bool torch_has_vectors() {
  static const bool has = at::get_cpu_capability() != "DEFAULT";
  return has;
}

// The codes of column n, K of them, from torch's packed bytes.
void read_codes(const uint8_t* packed, int64_t N, int64_t K, int64_t n, int8_t* codes) {
  const int64_t block = n / torch_block() * torch_block();
  const int64_t columns = std::min(torch_block(), N - block), bytes = columns / 2;
  const int64_t in_block = n - block;
  const bool halves = torch_has_vectors() && columns == torch_block();
  const int64_t byte = halves ? in_block % bytes : in_block / 2;
  const int shift = (halves ? in_block >= bytes : in_block % 2 == 1) ? 4 : 0;
  const uint8_t* from = packed + block * K / 2 + byte;
  for (int64_t k = 0; k < K; ++k) {
    codes[k] = static_cast<int8_t>(from[k * bytes] >> shift & 0xf);
  }
}

struct Weights {
  const at::Tensor& packed;
  const at::Tensor& scales;  // with zeros
  int64_t group;

  int64_t N() const { return packed.size(0); }
  int64_t K() const { return packed.size(1) * 2; }
};

std::shared_ptr<const kernels::WqWeights> pack(const Weights& from) {
  const int64_t N = from.N(), K = from.K(), groups = from.scales.size(0);
  const auto type = data_type(from.scales.scalar_type());
  auto weights = std::make_shared<kernels::WqWeights>(
      kernels::WqFormat{
          .bits = 4, .group = from.group, .scales = type, .zeros = kernels::WqZeros::reals},
      N, K);
  const at::Tensor scales = from.scales.to(at::kFloat);
  const auto* values = scales.const_data_ptr<float>();
  const auto* packed = from.packed.const_data_ptr<uint8_t>();
  parallel_for(0, weights->panels(), 1, [&](int64_t begin, int64_t end) {
    std::vector<int8_t> codes(static_cast<size_t>(kernels::kWqColumns * K));
    std::vector<float> of_codes(static_cast<size_t>(kernels::kWqColumns * groups));
    std::vector<float> reals(of_codes.size());
    for (int64_t panel = begin; panel < end; ++panel) {
      const int64_t first = panel * kernels::kWqColumns;
      const int64_t count = std::min(kernels::kWqColumns, N - first);
      for (int64_t j = 0; j < count; ++j) {
        read_codes(packed, N, K, first + j, codes.data() + j * K);
        for (int64_t g = 0; g < groups; ++g) {
          const float* pair = values + (g * N + first + j) * 2;
          of_codes[static_cast<size_t>(j * groups + g)] = pair[0];
          reals[static_cast<size_t>(j * groups + g)] = pair[1];
        }
      }
      weights->set_panel(panel, {.codes = codes.data(),
                                 .code_stride = K,
                                 .scales = of_codes.data(),
                                 .integers = nullptr,
                                 .reals = reals.data(),
                                 .scale_stride = groups});
    }
  });
  return weights;
}

// Whether torch accepts the arguments; otherwise its kernel raises the error.
bool is_valid(const at::Tensor& self, const at::Tensor& mat2, int64_t group,
              const at::Tensor& scales) {
  return self.dim() == 2 && is_gemm_type(self.scalar_type()) && mat2.dim() == 2 &&
         mat2.scalar_type() == at::kByte && mat2.is_contiguous() && mat2.size(0) % 16 == 0 &&
         mat2.size(1) * 2 == self.size(1) &&
         (group == 32 || group == 64 || group == 128 || group == 256) && scales.dim() == 3 &&
         scales.size(1) == mat2.size(0) && scales.size(2) == 2;
}

void check_scales(const at::Tensor& self, int64_t group, const at::Tensor& scales) {
  TORCH_CHECK(scales.scalar_type() == self.scalar_type(),
              "_weight_int4pack_mm_for_cpu: expected qScaleAndZeros of the type of self, ",
              self.scalar_type(), ", but got ", scales.scalar_type());
  TORCH_CHECK(self.size(1) % group == 0 && scales.size(0) == self.size(1) / group,
              "_weight_int4pack_mm_for_cpu: expected qScaleAndZeros of a row for each ", group,
              " of the ", self.size(1), " columns of self, but got shape ", scales.sizes());
}

const char* fallback_reason(const at::Tensor& self, const at::Tensor& mat2) {
#if defined(__x86_64__)
  return !plugin_on()                               ? reasons::kOff
         : !self.device().is_cpu() || self.is_neg() ? reasons::kLayout
         : self.size(0) == 0 || mat2.numel() == 0   ? reasons::kEmpty
                                                    : nullptr;
#else
  // torch's packed bytes differ.
  (void)self, (void)mat2;
  return "not an x86 CPU";
#endif
}

template <OpName kName>
at::Tensor weight_int4pack_mm(const at::Tensor& self, const at::Tensor& mat2, int64_t group,
                              const at::Tensor& scales) {
  const bool valid = is_valid(self, mat2, group, scales);
  if (valid) {
    check_scales(self, group, scales);
  }
  const char* reason = valid ? fallback_reason(self, mat2) : reasons::kInvalidArguments;
  if (reason != nullptr) {
    report_fallback(kInt4Pack, reason);
    return call_torch(kName.text, self, mat2, group, scales).toTensor();
  }
  const at::Tensor of_groups = scales.contiguous();
  const auto weights = PackedWeightCache::instance()
                           .get({mat2, of_groups}, WeightForm::torch_int4,
                                [&] {
                                  CachedPackedWeight packed;
                                  packed.groups = pack({mat2, of_groups, group});
                                  return packed;
                                })
                           .groups;
  const at::Tensor src = self.stride(1) == 1 ? self : self.contiguous();
  at::Tensor result = at::detail::empty_cpu({src.size(0), mat2.size(0)}, src.scalar_type());
  kernels::gemm_wq({.weights = weights.get(),
                    .M = src.size(0),
                    .src = src.const_data_ptr(),
                    .src_type = data_type(src.scalar_type()),
                    .src_stride = src.stride(0),
                    .dst = {.data = result.mutable_data_ptr(),
                            .type = data_type(src.scalar_type()),
                            .stride = mat2.size(0)}});
  calls().add(Op::packed_linear, Provider::cpuaccel);
  return result;
}

CPUACCEL_OVERRIDES{
    CPUACCEL_OVERRIDE("aten::_weight_int4pack_mm_for_cpu", c10::DispatchKey::CPU,
                      weight_int4pack_mm),
};

}  // namespace
}  // namespace cpuaccel::ops
