#include "elementwise.h"
#include "kernels/binary/binary.h"

namespace cpuaccel::bench {
namespace {

constexpr kernels::BinaryQuantizers kQuantizers{0.05f, 0.03f, 0.07f, 120, 100, 110, true};

}  // namespace

Family bench_binary() {
  Family family{"binary", {}};
  for (const auto op : {kernels::BinaryOp::add, kernels::BinaryOp::mul}) {
    for (const int64_t count : kElementCounts) {
      family.cases.push_back(elementwise_case<uint8_t>(
          op == kernels::BinaryOp::add ? "add " : "mul ", count, 2, kernels::binary_kernels(op),
          [](auto* function, auto& data, int64_t begin, int64_t end) {
            function(&data.a[begin], &data.b[begin], &data.dst[begin], end - begin, kQuantizers);
          }));
    }
  }
  return family;
}

}  // namespace cpuaccel::bench
