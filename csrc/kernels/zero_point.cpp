#include "kernels/zero_point.h"

#include <atomic>

namespace cpuaccel::kernels {
namespace {

std::atomic<ZeroPointAdded> where_added{ZeroPointAdded::after_rounding};

}  // namespace

ZeroPointAdded zero_point_added() { return where_added.load(std::memory_order_relaxed); }

void set_zero_point_added(ZeroPointAdded where) {
  where_added.store(where, std::memory_order_relaxed);
}

}  // namespace cpuaccel::kernels
