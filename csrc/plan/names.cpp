#include "plan/names.h"

#include <algorithm>
#include <array>
#include <utility>

namespace cpuaccel::plan {
namespace {

using Kind = dnnl::graph::op::kind;
using Attribute = dnnl::graph::op::attr;

#define CPUACCEL_NAMED(type, name) \
  std::pair<std::string_view, type> { #name, type::name }

// oneDNN 3.2's Graph API has only the form with erf (GELU); it fuses both forms in the same way.
constexpr std::string_view kTanhGelu = "GELUTanh";

// Inference only.
constexpr std::array kKinds{
    CPUACCEL_NAMED(Kind, Abs),
    CPUACCEL_NAMED(Kind, Add),
    CPUACCEL_NAMED(Kind, AvgPool),
    CPUACCEL_NAMED(Kind, BatchNormInference),
    CPUACCEL_NAMED(Kind, BiasAdd),
    CPUACCEL_NAMED(Kind, Clamp),
    CPUACCEL_NAMED(Kind, Concat),
    CPUACCEL_NAMED(Kind, Convolution),
    CPUACCEL_NAMED(Kind, ConvTranspose),
    CPUACCEL_NAMED(Kind, Dequantize),
    CPUACCEL_NAMED(Kind, Divide),
    CPUACCEL_NAMED(Kind, DynamicDequantize),
    CPUACCEL_NAMED(Kind, DynamicQuantize),
    CPUACCEL_NAMED(Kind, Elu),
    CPUACCEL_NAMED(Kind, Exp),
    CPUACCEL_NAMED(Kind, GELU),
    std::pair<std::string_view, Kind>{kTanhGelu, Kind::GELU},
    CPUACCEL_NAMED(Kind, HardSigmoid),
    CPUACCEL_NAMED(Kind, HardSwish),
    CPUACCEL_NAMED(Kind, Interpolate),
    CPUACCEL_NAMED(Kind, LayerNorm),
    CPUACCEL_NAMED(Kind, LeakyReLU),
    CPUACCEL_NAMED(Kind, Log),
    CPUACCEL_NAMED(Kind, LogSoftmax),
    CPUACCEL_NAMED(Kind, MatMul),
    CPUACCEL_NAMED(Kind, Maximum),
    CPUACCEL_NAMED(Kind, MaxPool),
    CPUACCEL_NAMED(Kind, Minimum),
    CPUACCEL_NAMED(Kind, Mish),
    CPUACCEL_NAMED(Kind, Multiply),
    CPUACCEL_NAMED(Kind, PReLU),
    CPUACCEL_NAMED(Kind, Quantize),
    CPUACCEL_NAMED(Kind, Reciprocal),
    CPUACCEL_NAMED(Kind, ReduceMax),
    CPUACCEL_NAMED(Kind, ReduceMean),
    CPUACCEL_NAMED(Kind, ReduceMin),
    CPUACCEL_NAMED(Kind, ReduceProd),
    CPUACCEL_NAMED(Kind, ReduceSum),
    CPUACCEL_NAMED(Kind, ReLU),
    CPUACCEL_NAMED(Kind, Reorder),
    CPUACCEL_NAMED(Kind, Round),
    CPUACCEL_NAMED(Kind, Sigmoid),
    CPUACCEL_NAMED(Kind, SoftMax),
    CPUACCEL_NAMED(Kind, SoftPlus),
    CPUACCEL_NAMED(Kind, Sqrt),
    CPUACCEL_NAMED(Kind, Square),
    CPUACCEL_NAMED(Kind, SquaredDifference),
    CPUACCEL_NAMED(Kind, StaticReshape),
    CPUACCEL_NAMED(Kind, StaticTranspose),
    CPUACCEL_NAMED(Kind, Subtract),
    CPUACCEL_NAMED(Kind, Tanh),
    CPUACCEL_NAMED(Kind, TypeCast),
    // An op outside of the library that reads a value, so that no partition hides the value.
    CPUACCEL_NAMED(Kind, Wildcard),
};

constexpr std::array kAttributes{
    CPUACCEL_NAMED(Attribute, alpha),
    CPUACCEL_NAMED(Attribute, auto_broadcast),
    CPUACCEL_NAMED(Attribute, auto_pad),
    CPUACCEL_NAMED(Attribute, axes),
    CPUACCEL_NAMED(Attribute, axis),
    CPUACCEL_NAMED(Attribute, begin_norm_axis),
    CPUACCEL_NAMED(Attribute, beta),
    CPUACCEL_NAMED(Attribute, data_format),
    CPUACCEL_NAMED(Attribute, dilations),
    CPUACCEL_NAMED(Attribute, epsilon),
    CPUACCEL_NAMED(Attribute, exclude_pad),
    CPUACCEL_NAMED(Attribute, groups),
    CPUACCEL_NAMED(Attribute, keep_dims),
    CPUACCEL_NAMED(Attribute, keep_stats),
    CPUACCEL_NAMED(Attribute, kernel),
    CPUACCEL_NAMED(Attribute, max),
    CPUACCEL_NAMED(Attribute, min),
    CPUACCEL_NAMED(Attribute, mode),
    CPUACCEL_NAMED(Attribute, order),
    CPUACCEL_NAMED(Attribute, output_padding),
    CPUACCEL_NAMED(Attribute, pads_begin),
    CPUACCEL_NAMED(Attribute, pads_end),
    CPUACCEL_NAMED(Attribute, per_channel_broadcast),
    CPUACCEL_NAMED(Attribute, qtype),
    CPUACCEL_NAMED(Attribute, rounding_type),
    CPUACCEL_NAMED(Attribute, scales),
    CPUACCEL_NAMED(Attribute, shape),
    CPUACCEL_NAMED(Attribute, sizes),
    CPUACCEL_NAMED(Attribute, special_zero),
    CPUACCEL_NAMED(Attribute, strides),
    CPUACCEL_NAMED(Attribute, transpose_a),
    CPUACCEL_NAMED(Attribute, transpose_b),
    CPUACCEL_NAMED(Attribute, use_affine),
    CPUACCEL_NAMED(Attribute, weights_format),
    CPUACCEL_NAMED(Attribute, zps),
};

// `other` is for constants that only preparations read.
constexpr std::array kTypes{DataType::f32, DataType::bf16, DataType::f16,  DataType::u8,
                            DataType::s8,  DataType::s32,  DataType::other};

#undef CPUACCEL_NAMED

template <class T, size_t n>
std::optional<T> find(const std::array<std::pair<std::string_view, T>, n>& table,
                      std::string_view name) {
  const auto found =
      std::find_if(table.begin(), table.end(), [&](const auto& row) { return row.first == name; });
  return found == table.end() ? std::nullopt : std::optional(found->second);
}

}  // namespace

std::optional<Kind> kind_of(std::string_view name) { return find(kKinds, name); }
bool is_primitive_only(std::string_view name) { return name == kTanhGelu; }
std::optional<Attribute> attribute_of(std::string_view name) { return find(kAttributes, name); }
std::optional<DataType> type_of(std::string_view name) {
  const auto found = std::find_if(kTypes.begin(), kTypes.end(),
                                  [&](DataType type) { return data_type_name(type) == name; });
  return found == kTypes.end() ? std::nullopt : std::optional(*found);
}

}  // namespace cpuaccel::plan
