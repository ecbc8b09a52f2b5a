// DataType: the element types of tensors, with their sizes and names.
#pragma once

#include <cstdint>
#include <string_view>

namespace cpuaccel {

// The numbers are those of oneDNN's types, so that a cast converts one to the other.
enum class DataType : uint8_t {
  other = 0,  // a type that is not listed here; oneDNN calls it undef
  f16 = 1,
  bf16 = 2,
  f32 = 3,
  s32 = 4,
  s8 = 5,
  u8 = 6,
  f64 = 7,
};

// Bytes of an element; 1 for other types.
constexpr int64_t data_type_size(DataType type) {
  return type == DataType::f32 || type == DataType::s32    ? 4
         : type == DataType::bf16 || type == DataType::f16 ? 2
         : type == DataType::f64                           ? 8
                                                           : 1;
}

constexpr std::string_view data_type_name(DataType type) {
  switch (type) {
    case DataType::f16:
      return "f16";
    case DataType::bf16:
      return "bf16";
    case DataType::f32:
      return "f32";
    case DataType::s32:
      return "s32";
    case DataType::s8:
      return "s8";
    case DataType::u8:
      return "u8";
    case DataType::f64:
      return "f64";
    case DataType::other:
      break;
  }
  return "other";
}

constexpr bool is_f32_or_bf16(DataType type) {
  return type == DataType::f32 || type == DataType::bf16;
}

}  // namespace cpuaccel
