#include "kernels/qgemm/block.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <string>

#include "kernels/qgemm/kernels.h"
#include "kernels/round_up.h"

namespace cpuaccel::kernels {
namespace {

constexpr char kMagic[8] = "cpuacQg";
constexpr uint32_t kVersion = 1;
constexpr int64_t kAlignment = 64;
// Keeps the sizes of a block within int64.
constexpr int64_t kMost = std::numeric_limits<int32_t>::max();

// Offsets of the parts of a block.
struct Parts {
  int64_t sums = sizeof(QgemmHeader), values, bytes;

  Parts(int64_t K, int64_t N, int64_t nr, int64_t run) {
    const int64_t columns = round_up(N, nr);
    values = sums + round_up(columns * int64_t{sizeof(int32_t)}, kAlignment);
    bytes = values + columns * round_up(K, run);
  }
};

Parts parts_of(int64_t K, int64_t N, const QgemmKernels& kernels) {
  return {K, N, kernels.nr, kernels.run};
}

const KernelRow<QgemmFunction>& best_row() { return first_usable(qgemm_kernels()); }

[[noreturn]] void fail(const std::string& what) { throw std::invalid_argument(what); }

// The row that packed the block, or null if this CPU may not use it.
QgemmFunction* usable_row(const QgemmHeader& header) {
  for (const auto& row : qgemm_kernels()) {
    const size_t length = std::strlen(row.name);
    if (length < sizeof(header.row) && std::memcmp(header.row, row.name, length + 1) == 0) {
      const QgemmKernels& kernels = row.function();
      const bool same = kernels.nr == header.nr && kernels.run == header.run;
      return same && isa_usable(row.isa) ? row.function : nullptr;
    }
  }
  return nullptr;
}

}  // namespace

int64_t qgemm_block_bytes(int64_t K, int64_t N) {
  return parts_of(K, N, best_row().function()).bytes;
}

void qgemm_pack_block(const QgemmPlain& plain, std::byte* block) {
  const auto& row = best_row();
  const Parts parts = parts_of(plain.K, plain.N, row.function());
  std::memset(block, 0, static_cast<size_t>(parts.values));
  const QgemmWeights packed =
      qgemm_pack_into(plain, row.function, reinterpret_cast<int8_t*>(block + parts.values),
                      reinterpret_cast<int32_t*>(block + parts.sums));
  QgemmHeader header{};
  std::memcpy(header.magic, kMagic, sizeof(kMagic));
  header.version = kVersion;
  header.nr = static_cast<uint16_t>(packed.nr);
  header.run = static_cast<uint16_t>(packed.run);
  std::memcpy(header.row, row.name, std::min(std::strlen(row.name), sizeof(header.row) - 1));
  header.N = packed.N;
  header.K = packed.K;
  header.magnitude = packed.magnitude;
  std::memcpy(block, &header, sizeof(header));
}

QgemmWeights qgemm_weights_in(const std::byte* block, int64_t bytes) {
  QgemmHeader header;
  if (bytes < int64_t{sizeof(header)}) {
    fail("too short for a header: " + std::to_string(bytes) + " bytes");
  }
  std::memcpy(&header, block, sizeof(header));
  if (std::memcmp(header.magic, kMagic, sizeof(kMagic)) != 0) {
    fail("no header of packed int8 weights");
  }
  if (header.version != kVersion) {
    fail("layout version " + std::to_string(header.version) + ", not " + std::to_string(kVersion));
  }
  if (header.nr == 0 || header.run == 0 || header.N < 0 || header.N > kMost || header.K < 0 ||
      header.K > kMost) {
    fail("a damaged header");
  }
  const Parts parts(header.K, header.N, header.nr, header.run);
  if (parts.bytes != bytes) {
    fail(std::to_string(bytes) + " bytes, not " + std::to_string(parts.bytes));
  }
  QgemmWeights weights;
  const bool aligned = reinterpret_cast<uintptr_t>(block) % kAlignment == 0;
  weights.row = aligned ? usable_row(header) : nullptr;
  weights.nr = header.nr;
  weights.run = header.run;
  weights.K = header.K;
  weights.N = header.N;
  weights.column_sums = reinterpret_cast<const int32_t*>(block + parts.sums);
  weights.values = reinterpret_cast<const int8_t*>(block + parts.values);
  weights.bytes = bytes;
  weights.magnitude = header.magnitude;
  return weights;
}

}  // namespace cpuaccel::kernels
