#include "base/plugin.h"

#include <atomic>

namespace cpuaccel {
namespace {

std::atomic<bool> g_on{false};

}  // namespace

bool plugin_on() { return g_on.load(std::memory_order_relaxed); }
void set_plugin_on(bool on) { g_on.store(on); }

}  // namespace cpuaccel
