#include "kernels/gemm_wq/header.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <string>

#include "base/data_type.h"

namespace cpuaccel::kernels {
namespace {

constexpr char kMagic[8] = "cpuacWq";
constexpr std::array kScales{DataType::f32, DataType::bf16, DataType::f16};
constexpr std::array kZeros{WqZeros::none, WqZeros::integers, WqZeros::reals};
// Keeps the sizes of a panel within int64.
constexpr int64_t kMost = std::numeric_limits<int32_t>::max();

[[noreturn]] void fail(const std::string& what) { throw std::invalid_argument(what); }

}  // namespace

WqHeader wq_header(const WqFormat& format, int64_t N, int64_t K) {
  WqHeader header{};
  std::memcpy(header.magic, kMagic, sizeof(kMagic));
  header.version = kWqVersion;
  header.bits = static_cast<uint8_t>(format.bits);
  header.scales = static_cast<uint8_t>(std::ranges::find(kScales, format.scales) - kScales.begin());
  header.zeros = static_cast<uint8_t>(std::ranges::find(kZeros, format.zeros) - kZeros.begin());
  header.N = N;
  header.K = K;
  header.group = format.group;
  return header;
}

WqWeights weights_behind_header(std::byte* data, int64_t bytes) {
  WqHeader header;
  if (bytes < int64_t{sizeof(header)}) {
    fail("too short for a header: " + std::to_string(bytes) + " bytes");
  }
  std::memcpy(&header, data, sizeof(header));
  if (std::memcmp(header.magic, kMagic, sizeof(kMagic)) != 0) {
    fail("no header of packed weights");
  }
  if (header.version != kWqVersion) {
    fail("layout version " + std::to_string(header.version) + ", not " +
         std::to_string(kWqVersion));
  }
  if (header.scales >= kScales.size() || header.zeros >= kZeros.size() || header.N > kMost ||
      header.K > kMost) {
    fail("a damaged header");
  }
  const WqFormat format{.bits = header.bits,
                        .group = header.group,
                        .scales = kScales[header.scales],
                        .zeros = kZeros[header.zeros]};
  WqWeights weights(format, header.N, header.K, data + sizeof(header));
  const int64_t panels = weights.panels(), of_panels = bytes - int64_t{sizeof(header)};
  const int64_t of_panel = weights.layout().panel_bytes;
  // By a division, because the product may overflow.
  if (panels == 0 ? of_panels != 0 : of_panels % panels != 0 || of_panels / panels != of_panel) {
    fail(std::to_string(of_panels) + " bytes behind the header, not " + std::to_string(panels) +
         " panels of " + std::to_string(of_panel));
  }
  return weights;
}

}  // namespace cpuaccel::kernels
