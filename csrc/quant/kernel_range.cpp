#include "quant/kernel_range.h"

#include <atomic>

namespace cpuaccel::quant {
namespace {

void no_range(const char* /*name*/, const std::function<void()>& run) { run(); }

constinit std::atomic<KernelRange> g_kernel_range{no_range};

}  // namespace

void set_kernel_range(KernelRange range) { g_kernel_range.store(range, std::memory_order_relaxed); }

KernelRange kernel_range() { return g_kernel_range.load(std::memory_order_relaxed); }

}  // namespace cpuaccel::quant
