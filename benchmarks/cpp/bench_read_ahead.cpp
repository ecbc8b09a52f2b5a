#include <atomic>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "base/parallel.h"
#include "bench.h"
#include "data.h"
#include "kernels/read_ahead.h"

namespace cpuaccel::bench {
namespace {

struct Way {
  const char* name;
  kernels::ReadAhead ahead;
};

constexpr Way kWays[] = {{"nothing", kernels::kReadAheadOfNothing},
                         {"lines", kernels::kReadAheadOfLines},
                         {"pages", kernels::kReadAheadOfPages}};

constexpr int64_t kLine = 64;

// A vector type that every CPU supports.
using Vector = uint64_t __attribute__((vector_size(16)));
constexpr int kVectors = kLine / sizeof(Vector);

uint64_t sum_of(const uint8_t* src, int64_t lines, const kernels::ReadAhead& ahead) {
  Vector sums[kVectors] = {};
  for (int64_t i = 0; i < lines; ++i, src += kLine) {
    ahead.ask(src);
#pragma GCC unroll 4
    for (int j = 0; j < kVectors; ++j) {
      Vector part;
      std::memcpy(&part, src + j * sizeof(part), sizeof(part));
      sums[j] += part;
    }
  }
  const Vector sum = (sums[0] + sums[1]) + (sums[2] + sums[3]);
  return sum[0] + sum[1];
}

Case read_case(int64_t mebibytes) {
  const int64_t lines = mebibytes * (1 << 20) / kLine;
  Case item;
  item.shape = std::to_string(mebibytes) + " MiB";
  item.bytes_read = static_cast<double>(lines * kLine);
  item.prepare = [lines] {
    const auto src = std::make_shared<const std::vector<uint8_t>>(uniform_u8(lines * kLine));
    std::vector<Candidate> all;
    for (const auto& [name, ahead] : kWays) {
      all.push_back({name, Isa::ref, [src, lines, ahead = ahead] {
                       std::atomic<uint64_t> sum = 0;
                       parallel_for(0, lines, 1, [&](int64_t begin, int64_t end) {
                         sum += sum_of(src->data() + begin * kLine, end - begin, ahead);
                       });
                     }});
    }
    return all;
  };
  return item;
}

}  // namespace

// As large as an image's weights in L2, as a layer's in L3, and too large for any cache.
Family bench_read_ahead() { return {"read_ahead", {read_case(1), read_case(8), read_case(160)}}; }

}  // namespace cpuaccel::bench
