// The families, cases and candidates of cpuaccel_bench, which times kernel rows against each other
// and against this machine's peaks.
//
// To add a family foo, write bench_foo.cpp (bench_minmax.cpp is the model):
//
//   Family bench_foo() {
//     Family family{"foo", {}};
//     for (const Shape& shape : kShapes) {
//       Case item;
//       item.shape = to_text(shape);          // shown in the table, searched by --filter
//       item.operations = macs(shape);        // of one call, counted in item.rate ...
//       item.bytes_read = ...;                // ... and the bytes that it must move
//       item.bytes_written = ...;
//       item.prepare = [shape] {              // buffers, kept alive by the capture
//         const auto data = std::make_shared<const Data>(shape);
//         return candidates(kernels::foo_kernels(), [data](auto* function) {
//           return [data, function] { function(data->src(), data->dst(), ...); };
//         });
//       };
//       item.bound = [shape](const Peaks& peaks, Isa isa) { return seconds; };  // optional
//       family.cases.push_back(std::move(item));
//     }
//     return family;
//   }
//
// then add row(foo) below and the file to CMakeLists.txt.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/isa.h"
#include "kernels/kernel_list.h"
#include "kernels/peaks/peaks.h"

namespace cpuaccel::bench {

using kernels::bytes_runs;
using kernels::operations_runs;
using kernels::PeakRun;
using kernels::Peaks;
using kernels::Rate;
using kernels::rate_name;
using kernels::rate_unit;
using kernels::typical_footprints;

// One way of running a case: a row of a kernel list, or an alternative to compare with.
struct Candidate {
  std::string name;
  Isa isa = Isa::ref;
  std::function<void()> run;
};

struct Case {
  std::string shape;

  // Operations of one call (0 for a kernel that only moves data), and the peak that they count
  // towards.
  double operations = 0;
  Rate rate = Rate::int8;

  // The bytes of one call. The peak is that of a loop over as much memory, in its cache.
  double bytes_read = 0;
  double bytes_written = 0;

  std::function<std::vector<Candidate>()> prepare;

  // The least seconds of the whole loop with the instructions of `isa`, from peaks measured with as
  // many threads; empty if the family has no such model.
  std::function<double(const Peaks& peaks, Isa isa)> bound;
};

struct Family {
  std::string name;
  std::vector<Case> cases;
};

#define CPUACCEL_BENCH_FAMILIES(row)                                                           \
  row(attention) row(conv_f32) row(dwconv) row(gemm) row(gemm_bf16) row(gemm_wq) row(qgemm_wq) \
      row(qattention) row(qconv) row(qgemm) row(avgpool) row(binary) row(channel_affine)       \
          row(clamp) row(dequantize) row(maxpool) row(minmax) row(quantize) row(read_ahead)    \
              row(spmm) row(lookup_table) row(transpose)

#define CPUACCEL_DECLARE(name) Family bench_##name();
CPUACCEL_BENCH_FAMILIES(CPUACCEL_DECLARE)
#undef CPUACCEL_DECLARE

// Whether a row is not timed: it cannot run, or it has no vectors and would take seconds.
inline bool left_out(Isa isa, double operations, double most_for_ref) {
  return !isa_usable(isa) || (isa == Isa::ref && operations > most_for_ref);
}

// A candidate for each usable row; `make` turns the row's function into the call to be timed.
template <typename Function, typename Make>
std::vector<Candidate> candidates(std::span<const kernels::KernelRow<Function>> rows, Make make) {
  std::vector<Candidate> usable;
  for (const auto& row : rows) {
    if (isa_usable(row.isa)) {
      usable.push_back({row.name, row.isa, make(row.function)});
    }
  }
  return usable;
}

}  // namespace cpuaccel::bench
