// A linear layer's weight, packed, as bytes that a file may hold: a header, and then the panels.
//
// The layout of panels is a machine's. The header says which, so that another machine can unpack
// them and pack again, and says enough to refuse what is no such weight or no longer one.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>

#include "ops/prepack/packed_weight.h"

namespace cpuaccel::ops {

// Little-endian, at the beginning of the bytes.
struct WeightHeader {
  static constexpr std::array<char, 8> kMagic{'c', 'p', 'u', 'a', 'c', 'c', 'W', '\n'};
  static constexpr uint32_t kVersion = 2;
  static constexpr uint32_t kPanels =
      1;  // of gemm: K x panel, one behind the other, block by block

  std::array<char, 8> magic = kMagic;
  uint32_t version = kVersion;
  uint32_t layout = kPanels;
  uint32_t type = 0;  // 0: float32, 1: bfloat16, 2: float16
  uint32_t panel = 0;
  int64_t out_features = 0;
  int64_t in_features = 0;
  uint64_t payload = 0;       // bytes behind the header
  uint64_t checksum = 0;      // of them, family checksum
  uint64_t own_checksum = 0;  // of what is before it
};
static_assert(sizeof(WeightHeader) == 64, "files have it so; and what follows is aligned");

// `weight` (out_features x in_features of float32, bfloat16 or float16) in panels of `panel`
// columns, behind its header: uint8 of one dimension.
at::Tensor weight_to_bytes(const at::Tensor& weight, int64_t panel);

// The header of `bytes`. Throws c10::Error, in the name of `op`, where they are no packed weight,
// of another version, or fewer or more than the header says. Does not read the panels.
WeightHeader read_weight_header(const char* op, const at::Tensor& bytes);

at::ScalarType type_of(const WeightHeader& header);
PackedShape shape_of(const WeightHeader& header);

// The panels: a view.
at::Tensor panels_of(const at::Tensor& bytes, const WeightHeader& header);

// Throws c10::Error, in the name of `op`, where the panels are not those that were written.
void check_panels(const char* op, const at::Tensor& bytes, const WeightHeader& header);

// What this CPU multiplies by: nothing, where the panels serve as they are, else the weight packed
// anew, to be kept. The panels are checked first.
KeptPacked open_weight(const char* op, const at::Tensor& bytes, const WeightHeader& header);

// The plain weight, bit for bit. The panels are checked first.
at::Tensor weight_from_bytes(const at::Tensor& bytes);

}  // namespace cpuaccel::ops
