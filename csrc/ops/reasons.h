// The reasons for fallbacks that several ops share, as stats() and explain() show them: "op:
// reason". A reason says what of the call the kernels of cpuaccel do not support.
#pragma once

namespace cpuaccel::ops::reasons {

// torch's kernel then raises its error, or returns an empty tensor.
inline constexpr const char* kInvalidArguments = "invalid or empty arguments";
inline constexpr const char* kOff = "cpuaccel is off";

// Quantized tensors.
inline constexpr const char* kNotQuint8 = "not quint8";
inline constexpr const char* kNot8Bit = "not quint8 or qint8";
inline constexpr const char* kNotQuantized = "an input is not quantized";
inline constexpr const char* kPerChannel = "quantized per channel";
inline constexpr const char* kZeroPoint = "zero_point out of range";
inline constexpr const char* kNotChannelsLast = "input is not channels_last";
inline constexpr const char* kNotDense = "input is not dense";
inline constexpr const char* kInPlace = "inplace=True";
inline constexpr const char* kNotReal = "a number is complex or symbolic";

// Graph and sparse tensors.
inline constexpr const char* kLayout = "unsupported layout";
inline constexpr const char* kDtype = "unsupported dtype";
inline constexpr const char* kShape = "unsupported shape";
inline constexpr const char* kStrides = "unsupported strides";
inline constexpr const char* kDimension = "not along dimension 0";
inline constexpr const char* kEmpty = "empty tensor";
inline constexpr const char* kIndices = "unsupported indices";
inline constexpr const char* kIndexRange = "index out of range";
inline constexpr const char* kIndexPerElement = "an index for each element, not for each row";
inline constexpr const char* kOut = "unsupported out tensor";
inline constexpr const char* kOverlap = "tensors share memory";
inline constexpr const char* kReduction = "unsupported reduction";
inline constexpr const char* kGradient = "unsupported gradient tensor";

}  // namespace cpuaccel::ops::reasons
