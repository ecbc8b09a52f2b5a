// The provider tables: which provider takes which quantized layer, best row first, one table for
// each architecture.

#include <array>

#include "base/isa.h"
#include "quant/cpuaccel_product.h"
#include "quant/providers.h"

namespace cpuaccel::quant {
namespace {

bool depthwise(const LayerWeight& layer, const QuantCall& /*call*/) {
  return layer.shape.depthwise();
}
bool any(const LayerWeight& /*layer*/, const QuantCall& /*call*/) { return true; }

#if defined(__aarch64__)

bool product(const LayerWeight& layer, const QuantCall& /*call*/) {
  return is_cpuaccel_product(layer.shape);
}

// No library with int8 kernels is built in: PyPI has no oneDNN for Arm, and FBGEMM's kernels are
// for x86. Nothing here was measured on hardware.
constexpr std::array kRows{
    ProviderRow{Provider::cpuaccel, product,
                "matrix product: cpuaccel's kernel, weights packed once"},
    ProviderRow{Provider::cpuaccel, depthwise, "depthwise: cpuaccel's kernel, weights packed once"},
    ProviderRow{Provider::cpuaccel, any, "convolution: cpuaccel's kernel, weights packed once"},
};

#else

int64_t pixels(const QuantCall& call) {
  return call.dst_dims[0] * call.dst_dims[1] * call.dst_dims[2];
}

bool plain_2d(const LayerWeight& layer) {
  return layer.shape.kind == LayerKind::conv && layer.shape.spatial == 2;
}

bool is_linear(const LayerWeight& layer, const QuantCall& /*call*/) {
  return layer.shape.kind == LayerKind::linear;
}
bool rows_on_amx(const LayerWeight& layer, const QuantCall& call) {
  constexpr int64_t kLeastRows = 8;
  return is_linear(layer, call) && call.N >= kLeastRows && has_amx_arithmetic();
}
// kernels/qconv applies GELU to results that are in L1; FBGEMM does not fuse it.
bool linear_with_gelu(const LayerWeight& layer, const QuantCall& call) {
  return is_linear(layer, call) && (call.post == PostOp::gelu || call.post == PostOp::gelu_tanh) &&
         isa_usable(Isa::avx512_vnni);
}
bool with_vnni(const LayerWeight& /*layer*/, const QuantCall& /*call*/) { return has_vnni(); }
bool odd_depthwise(const LayerWeight& layer, const QuantCall& /*call*/) {
  return layer.shape.depthwise() && layer.shape.OC % 8 != 0;
}
bool narrow_depthwise(const LayerWeight& layer, const QuantCall& call) {
  return plain_2d(layer) && layer.shape.depthwise() && layer.shape.OC % 32 != 0 &&
         layer.shape.OC <= 256 && pixels(call) >= 196;
}
bool grouped(const LayerWeight& layer, const QuantCall& /*call*/) {
  return plain_2d(layer) && layer.shape.groups > 1;
}
bool stem(const LayerWeight& layer, const QuantCall& call) {
  return plain_2d(layer) && layer.shape.IC <= 4 && pixels(call) > 196;
}
bool wide_stem(const LayerWeight& layer, const QuantCall& call) {
  return stem(layer, call) && layer.shape.groups == 1 && layer.shape.taps() > 7 * 7 &&
         isa_usable(Isa::avx512_vnni) && !has_amx_arithmetic();
}
bool pointwise(const LayerWeight& layer, const QuantCall& call) {
  return plain_2d(layer) && layer.shape.taps() == 1 && pixels(call) > 1;
}
// The calls that kernels/qconv/pointwise_avx512vnni.h is for.
bool pointwise_by_vnni(const LayerWeight& layer, const QuantCall& call) {
  return pointwise(layer, call) && layer.shape.groups == 1 && !call.f32_dst &&
         (call.post == PostOp::none || call.post == PostOp::relu) && isa_usable(Isa::avx512_vnni);
}
bool fast_pointwise(const LayerWeight& layer, const QuantCall& call) {
  return pointwise_by_vnni(layer, call) && pixels(call) >= 169;
}
bool fast_pointwise_of_amd(const LayerWeight& layer, const QuantCall& call) {
  constexpr int64_t kMostWeights = 72 << 10;
  return fast_pointwise(layer, call) && layer.shape.IC * layer.shape.OC <= kMostWeights &&
         cpu_vendor() == "AuthenticAMD";
}
bool intel_without_amx() {
  return cpu_vendor() == "GenuineIntel" && isa_usable(Isa::avx512_vnni) && !has_amx_arithmetic();
}
// In small images weights are used a few times only, and few channels leave the results as the
// work.
bool fast_pointwise_of_intel(const LayerWeight& layer, const QuantCall& call) {
  constexpr int64_t kSmallImage = 196, kFewRows = 784, kMostPixels = 56 * 56, kFewChannels = 96;
  const LayerShape& s = layer.shape;
  const bool wanted = (pixels(call) <= kSmallImage && call.N * pixels(call) <= kFewRows) ||
                      (pixels(call) <= kMostPixels && s.IC <= kFewChannels && s.OC > 16);
  return pointwise_by_vnni(layer, call) && wanted && intel_without_amx();
}
// The calls that kernels/qconv/deep_avx512vnni.h is for, and smaller ones.
bool few_pixels_of_intel(const LayerWeight& layer, const QuantCall& call) {
  constexpr int64_t kLeast = 16, kMost = 64, kFewRows = 196;
  const LayerShape& s = layer.shape;
  return plain_2d(layer) && s.groups == 1 && s.taps() > 1 && pixels(call) >= kLeast &&
         pixels(call) <= kMost && call.N * pixels(call) <= kFewRows && intel_without_amx();
}
// AVX-VNNI without AVX-512, as on client cores.
bool only_avx_vnni() { return isa_usable(Isa::avx_vnni) && !isa_usable(Isa::avx512); }
bool stem_of_avx_vnni(const LayerWeight& layer, const QuantCall& call) {
  return stem(layer, call) && layer.shape.groups == 1 && only_avx_vnni();
}
bool pointwise_of_avx_vnni(const LayerWeight& layer, const QuantCall& call) {
  constexpr int64_t kMostWeights = 200 << 10;
  return pointwise(layer, call) && layer.shape.groups == 1 &&
         layer.shape.IC * layer.shape.OC <= kMostWeights && only_avx_vnni();
}
bool few_channels_of_avx_vnni(const LayerWeight& layer, const QuantCall& call) {
  constexpr int64_t kMostProducts = 24 << 10, kMostPixels = 17 * 17;
  const LayerShape& s = layer.shape;
  return plain_2d(layer) && s.groups == 1 && s.IC * s.OC <= kMostProducts && pixels(call) > 1 &&
         pixels(call) <= kMostPixels && only_avx_vnni();
}
bool groups_of_avx_vnni(const LayerWeight& layer, const QuantCall& /*call*/) {
  constexpr int64_t kLeastChannels = 16;
  const LayerShape& s = layer.shape;
  return plain_2d(layer) && s.groups > 1 && s.IC / s.groups >= kLeastChannels && only_avx_vnni();
}
// Few src channels do not fill an AMX tile, and many results leave the tiles through memory.
bool widening_beside_amx(const LayerWeight& layer, const QuantCall& call) {
  const LayerShape& s = layer.shape;
  return fast_pointwise(layer, call) && s.IC <= 48 && s.OC >= 2 * s.IC && s.stride[0] == 1 &&
         s.stride[1] == 1 && has_amx_arithmetic();
}
bool large_image(const LayerWeight& layer, const QuantCall& call) {
  return plain_2d(layer) && pixels(call) > 784;
}
bool volume_or_transposed(const LayerWeight& layer, const QuantCall& /*call*/) {
  const LayerShape& s = layer.shape;
  return (s.kind == LayerKind::conv_transpose || s.spatial == 3) && s.IC > s.groups;
}
bool tiny(const LayerWeight& layer, const QuantCall& call) {
  const LayerShape& s = layer.shape;
  return s.kind != LayerKind::conv_transpose && pixels(call) == 1 &&
         call.N * s.OC * (s.IC / s.groups) * s.taps() <= 1000000;
}

// Ratios are times of FBGEMM over oneDNN, geometric means over the shapes of 24 torchvision models
// at batch 1 and one thread, as benchmarks/ops/qconv_providers.py prints them (docs/benchmarks.md).
// They were measured on an EPYC core with AVX2 only; those marked VNNI on an AVX512-VNNI EPYC core.
constexpr std::array kRows{
    ProviderRow{Provider::cpuaccel, depthwise, "depthwise: cpuaccel's kernel is exact and fastest"},
    ProviderRow{Provider::cpuaccel, tiny,
                "one pixel, at most 10^6 multiply-adds: 1.16 times as fast as FBGEMM, 1.36 as "
                "oneDNN"},
    ProviderRow{Provider::onednn, rows_on_amx,
                "linear of 8 rows or more, AMX: 109 us against 143 at 8x768x3072, 348 against 1433 "
                "at 128x768x3072"},
    ProviderRow{Provider::cpuaccel, linear_with_gelu,
                "linear with GELU, AVX512-VNNI: 1171 us against oneDNN's 1360 at 384x384x1536, 65 "
                "against 73 at 16x384x1536"},
    ProviderRow{
        Provider::fbgemm, is_linear,
        "linear: oneDNN is 0.38 times as fast at up to 8 rows, 0.86 at more; VNNI 40 us against "
        "15 at 1x768x768"},
    ProviderRow{
        Provider::cpuaccel, fast_pointwise_of_amd,
        "1x1, AVX512-VNNI of AMD, at least 169 pixels and at most 72 Ki weights: 1.00 to 1.44 "
        "times as fast as oneDNN on Zen 4"},
    ProviderRow{
        Provider::cpuaccel, fast_pointwise_of_intel,
        "1x1, AVX512-VNNI of Intel without AMX, at most 196 pixels, 784 in a batch, or 3136 and "
        "96 channels: 1.02 to 1.67 times as fast as oneDNN on Emerald Rapids"},
    ProviderRow{
        Provider::cpuaccel, few_pixels_of_intel,
        "several taps, AVX512-VNNI of Intel without AMX, 16 to 64 pixels, 196 in a batch: 1.03 to "
        "1.36 times as fast as oneDNN on Emerald Rapids"},
    ProviderRow{
        Provider::cpuaccel, widening_beside_amx,
        "1x1 of up to 48 channels to at least twice as many, AMX: 1.08 to 1.30 times as fast as "
        "oneDNN on a Xeon with AMX"},
    ProviderRow{Provider::cpuaccel, wide_stem,
                "stem of more than 7x7 taps, AVX512-VNNI without AMX: 449 us against 1196 at 11x11 "
                "3->64 55x55 on Emerald Rapids"},
    ProviderRow{
        Provider::cpuaccel, stem_of_avx_vnni,
        "stem of 3 channels, AVX-VNNI: 980 us against oneDNN's 1973 at 7x7 3->64 112x112 on "
        "an Emerald Rapids core limited to AVX-VNNI"},
    ProviderRow{Provider::cpuaccel, pointwise_of_avx_vnni,
                "1x1 of at most 200 Ki weights, AVX-VNNI: 0.97 to 1.62 times as fast as oneDNN "
                "there, geometric mean 1.12 of 130"},
    ProviderRow{Provider::cpuaccel, few_channels_of_avx_vnni,
                "at most 24 Ki pairs of channels and 289 pixels, AVX-VNNI: 1.00 to 1.51 times as "
                "fast as oneDNN there, geometric mean 1.23 of 14"},
    ProviderRow{Provider::cpuaccel, groups_of_avx_vnni,
                "groups of at least 16 channels, AVX-VNNI: 1.03 to 2.14 times as fast as oneDNN "
                "there"},
    ProviderRow{Provider::onednn, with_vnni,
                "convolution, VNNI: 245 us against 419 at 3x3 64->64 56x56, depthwise 144 at 56x56 "
                "90 against 153"},
    ProviderRow{Provider::onednn, odd_depthwise,
                "depthwise, channels not a multiple of 8: 48 times as fast"},
    ProviderRow{Provider::onednn, narrow_depthwise,
                "depthwise, channels not a multiple of 32, large images: 1.3 times as fast"},
    ProviderRow{Provider::fbgemm, depthwise, "depthwise, other: oneDNN is 0.76 times as fast"},
    ProviderRow{Provider::onednn, grouped, "grouped: 1.5 times as fast"},
    ProviderRow{Provider::onednn, stem, "stem of 3 channels: 1.8 times as fast"},
    ProviderRow{Provider::onednn, pointwise, "pointwise: 1.18 times as fast"},
    ProviderRow{Provider::onednn, large_image, "more than 784 pixels: 1.14 times as fast"},
    ProviderRow{
        Provider::onednn, volume_or_transposed,
        "3-D or transposed, several channels a group: 1.5 to 9 times as fast on a Zen 4 core "
        "limited to AVX2"},
    ProviderRow{Provider::fbgemm, any, "at most 784 pixels, or depthwise in 3-D: not slower"},
    ProviderRow{Provider::onednn, any, "FBGEMM does not support it"},
    ProviderRow{Provider::cpuaccel, any, "no library supports it"},
};

#endif

}  // namespace

std::span<const ProviderRow> provider_rows() { return kRows; }

}  // namespace cpuaccel::quant
