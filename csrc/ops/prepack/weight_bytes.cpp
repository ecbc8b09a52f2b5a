#include "ops/prepack/weight_bytes.h"

#include <ATen/EmptyTensor.h>
#include <c10/util/Exception.h>
#include <torch/library.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstring>

#include "kernels/checksum/checksum.h"
#include "kernels/gemm/packed.h"
#include "kernels/round_up.h"
#include "ops/data_type.h"
#include "ops/torch_kernel.h"

namespace cpuaccel::ops {
namespace {

static_assert(std::endian::native == std::endian::little, "headers are written as they lie");

constexpr auto kTo = "cpuaccel::weight_to_bytes";
constexpr auto kFrom = "cpuaccel::weight_from_bytes";
constexpr std::array kTypes{at::kFloat, at::kBFloat16, at::kHalf};
constexpr int64_t kMostFeatures = int64_t{1} << 30;

uint32_t number_of(at::ScalarType type) {
  return static_cast<uint32_t>(std::ranges::find(kTypes, type) - kTypes.begin());
}

uint64_t sum_of(const WeightHeader& header) {
  return kernels::checksum(&header, offsetof(WeightHeader, header_checksum));
}

// No product of sizes overflows: both are below 2^30, and an element has 4 bytes at most.
uint64_t payload_of(const WeightHeader& header) {
  const auto padded = kernels::round_up(header.out_features, static_cast<int64_t>(header.panel));
  return static_cast<uint64_t>(padded) * static_cast<uint64_t>(header.in_features) *
         c10::elementSize(type_of(header));
}

bool possible(const WeightHeader& header) {
  const auto fits = [](int64_t size) { return size >= 0 && size < kMostFeatures; };
  return header.layout == WeightHeader::kPanels && header.type < kTypes.size() &&
         header.panel > 0 && header.panel <= kernels::kGemmMaxNr && header.panel % 4 == 0 &&
         fits(header.out_features) && fits(header.in_features);
}

bool serves_here(const at::Tensor& panels, const WeightHeader& header) {
  const auto here = gemm_panels();
  return std::ranges::find(here, static_cast<int64_t>(header.panel)) != here.end() &&
         reinterpret_cast<uintptr_t>(panels.const_data_ptr()) % panels.element_size() == 0;
}

at::Tensor unpacked(const at::Tensor& bytes, const WeightHeader& header) {
  return unpack_linear(panels_of(bytes, header), header.panel, header.out_features,
                       header.in_features);
}

}  // namespace

at::Tensor weight_to_bytes(const at::Tensor& weight, int64_t panel) {
  TORCH_CHECK(weight.dim() == 2 && is_gemm_type(weight.scalar_type()) &&
                  weight.layout() == at::kStrided && !weight.is_neg(),
              kTo, ": expected weight to be a matrix of float32, bfloat16 or float16, but got ",
              weight.scalar_type(), " of ", weight.dim(), " dimensions");
  WeightHeader header;
  header.type = number_of(weight.scalar_type());
  header.panel = panel > 0 && panel <= kernels::kGemmMaxNr ? static_cast<uint32_t>(panel) : 0;
  header.out_features = weight.size(0);
  header.in_features = weight.size(1);
  TORCH_CHECK(possible(header), kTo, ": expected panel to be the panel width of a kernel, but got ",
              panel);
  header.payload = payload_of(header);
  at::Tensor bytes =
      at::detail::empty_cpu({static_cast<int64_t>(sizeof(header) + header.payload)}, at::kByte);
  auto* const memory = static_cast<std::byte*>(bytes.mutable_data_ptr());
  auto* const panels = memory + sizeof(header);
  const auto type = data_type(weight.scalar_type());
  const auto matrix = weight.t();
  kernels::GemmPacked(panels, type, header.in_features, header.out_features, panel)
      .pack({matrix.const_data_ptr(), type, matrix.stride(0), matrix.stride(1), 0});
  header.checksum = kernels::checksum(panels, static_cast<int64_t>(header.payload));
  header.header_checksum = sum_of(header);
  std::memcpy(memory, &header, sizeof(header));
  return bytes;
}

WeightHeader read_weight_header(const char* op, const at::Tensor& bytes) {
  TORCH_CHECK(bytes.device().is_cpu() && bytes.layout() == at::kStrided &&
                  bytes.scalar_type() == at::kByte && bytes.dim() == 1 && bytes.is_contiguous(),
              op, ": expected bytes to be uint8 of one dimension, as weight_to_bytes returns it, ",
              "but got ", bytes.scalar_type(), " of ", bytes.dim(), " dimensions");
  WeightHeader header;
  TORCH_CHECK(bytes.numel() >= static_cast<int64_t>(sizeof(header)), op,
              ": truncated packed weight: expected at least ", sizeof(header), " bytes, but got ",
              bytes.numel());
  std::memcpy(&header, bytes.const_data_ptr(), sizeof(header));
  TORCH_CHECK(header.magic == WeightHeader::kMagic, op,
              ": not a packed weight: expected bytes to begin with \"cpuaccW\"");
  TORCH_CHECK(header.version == WeightHeader::kVersion, op, ": packed weight of format version ",
              header.version, ", but this cpuaccel reads version ", WeightHeader::kVersion);
  TORCH_CHECK(header.header_checksum == sum_of(header) && possible(header) &&
                  header.payload == payload_of(header),
              op, ": damaged packed weight: the header does not match its checksum");
  TORCH_CHECK(static_cast<uint64_t>(bytes.numel()) == sizeof(header) + header.payload, op,
              ": truncated packed weight: expected ", sizeof(header) + header.payload,
              " bytes, but got ", bytes.numel());
  return header;
}

at::ScalarType type_of(const WeightHeader& header) { return kTypes[header.type]; }

PackedShape shape_of(const WeightHeader& header) {
  return {header.panel, header.out_features, header.in_features};
}

at::Tensor panels_of(const at::Tensor& bytes, const WeightHeader& header) {
  at::Tensor panels = bytes.narrow(0, sizeof(header), static_cast<int64_t>(header.payload));
  const bool aligned =
      reinterpret_cast<uintptr_t>(panels.const_data_ptr()) % c10::elementSize(type_of(header)) == 0;
  const bool begins_well = panels.storage_offset() % c10::elementSize(type_of(header)) == 0;
  return (aligned && begins_well ? panels : panels.clone()).view(type_of(header));
}

void check_panels(const char* op, const at::Tensor& bytes, const WeightHeader& header) {
  const auto* panels = static_cast<const std::byte*>(bytes.const_data_ptr()) + sizeof(header);
  TORCH_CHECK(kernels::checksum(panels, static_cast<int64_t>(header.payload)) == header.checksum,
              op, ": damaged packed weight: its ", header.payload,
              " bytes do not match their checksum");
}

CachedPackedWeight open_weight(const char* op, const at::Tensor& bytes,
                               const WeightHeader& header) {
  check_panels(op, bytes, header);
  const bool pairs = packs_pairs() && type_of(header) == at::kBFloat16;
  if (!pairs && serves_here(panels_of(bytes, header), header)) {
    return {{}, header.panel};
  }
  report_fallback("saved_linear", "packed for another CPU, packed again once");
  return pack_for_cache(unpacked(bytes, header), pairs);
}

at::Tensor weight_from_bytes(const at::Tensor& bytes) {
  const auto header = read_weight_header(kFrom, bytes);
  check_panels(kFrom, bytes, header);
  return unpacked(bytes, header);
}

TORCH_LIBRARY_FRAGMENT(cpuaccel, library) {
  library.def("weight_to_bytes(Tensor weight, int panel) -> Tensor");
  library.def("weight_from_bytes(Tensor bytes) -> Tensor");
}

TORCH_LIBRARY_IMPL(cpuaccel, CPU, library) {
  library.impl("weight_to_bytes", weight_to_bytes);
  library.impl("weight_from_bytes", weight_from_bytes);
}

}  // namespace cpuaccel::ops
