// The file format of a packed linear weight: a header, then the panels.
//
// The layout of panels depends on the machine. The header states it, so that another machine can
// unpack and repack them. The header also detects bytes that are not a weight, or are damaged.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>

#include "ops/prepack/packed_weight.h"

namespace cpuaccel::ops {

// At the start of the bytes, little-endian.
struct WeightHeader {
  static constexpr std::array<char, 8> kMagic{'c', 'p', 'u', 'a', 'c', 'c', 'W', '\n'};
  static constexpr uint32_t kVersion = 2;
  static constexpr uint32_t kPanels = 1;  // gemm's panels: K x panel each, one after the other

  std::array<char, 8> magic = kMagic;
  uint32_t version = kVersion;
  uint32_t layout = kPanels;
  uint32_t type = 0;  // 0: float32, 1: bfloat16, 2: float16
  uint32_t panel = 0;
  int64_t out_features = 0;
  int64_t in_features = 0;
  uint64_t payload = 0;          // bytes after the header
  uint64_t checksum = 0;         // of the payload, by family checksum
  uint64_t header_checksum = 0;  // of the header's fields before it
};
static_assert(sizeof(WeightHeader) == 64, "the size in files, which also aligns the payload");

// The bytes of `weight` (out_features x in_features of float32, bfloat16 or float16) in panels of
// `panel` columns, after the header: 1-d uint8.
at::Tensor weight_to_bytes(const at::Tensor& weight, int64_t panel);

// The header of `bytes`. Throws c10::Error, in the name of `op`, if they are not a packed weight,
// have another version, or have another length than the header says. Does not read the panels.
WeightHeader read_weight_header(const char* op, const at::Tensor& bytes);

at::ScalarType type_of(const WeightHeader& header);
PackedShape shape_of(const WeightHeader& header);

// A view of the panels.
at::Tensor panels_of(const at::Tensor& bytes, const WeightHeader& header);

// Throws c10::Error, in the name of `op`, if the panels have changed since they were written.
void check_panels(const char* op, const at::Tensor& bytes, const WeightHeader& header);

// The weight repacked for this CPU, to be cached; undefined values if the panels can be used as
// they are. The panels are checked first.
CachedPackedWeight open_weight(const char* op, const at::Tensor& bytes, const WeightHeader& header);

// The plain weight, bit for bit. The panels are checked first.
at::Tensor weight_from_bytes(const at::Tensor& bytes);

}  // namespace cpuaccel::ops
